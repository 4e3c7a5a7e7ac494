package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/replay"
)

func newReplay() *cobra.Command {
	var o options
	var pace string
	cfg := replay.Config{}
	cmd := &cobra.Command{
		Use:   "replay FILE|-",
		Short: "Send a capture's requests to another server and compare its answers",
		Long: `Send the requests of a capture to another server, on as many connections as in the
capture and each after the answers it originally followed, and report what the
server answers or pushes differently. Exit code 3 means that there are differences.

Replay does not compare times and versions (mtime, updated, expires, left and the
like), numbers that the server chooses (svrid, revisions, leases, fences, watches),
epoch, addresses and the texts in desc; of GETLOGR and KVSTAT it compares only the
code. If a later request repeats such a number, it is sent with this server's number.
--exact compares byte by byte instead and sends everything as it was.`,
		Example: `  ccdump replay odd.pcap --to 127.0.0.1:4801
  ccdump replay odd.pcap --to 127.0.0.1:4801 --pace 10x`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cfg.Pace, err = parsePace(pace); err != nil {
				return usageError{err}
			}
			if cfg.Patience <= 0 {
				return usageError{fmt.Errorf("--timeout %v must be greater than 0", cfg.Patience)}
			}
			if err := checkServer(cfg.To); err != nil {
				return err
			}
			return runReplay(cmd, &o, cfg, args[0])
		},
	}
	o.bindAll(cmd)
	f := cmd.Flags()
	f.StringVarP(&cfg.To, "to", "t", "", "server to replay to, required; what the capture writes is written there")
	f.StringVar(&pace, "pace", "fast", "original, so many times as fast (10x), or fast: as soon as the answers are there")
	f.DurationVar(&cfg.Patience, "timeout", 5*time.Second, "how long to wait for an answer or push")
	f.BoolVar(&cfg.Exact, "exact", false, "compare byte by byte and translate nothing")
	return cmd
}

// parsePace reads original, fast, or a factor such as 10x.
func parsePace(s string) (float64, error) {
	switch s {
	case "original":
		return 1, nil
	case "fast":
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(s, "x"), "×"), 64)
	if err != nil || !(n > 0) || n > 1e9 {
		return 0, fmt.Errorf("--pace %s: must be original, fast or a factor such as 10x", s)
	}
	return n, nil
}

func runReplay(cmd *cobra.Command, o *options, cfg replay.Config, name string) error {
	src, closeFile, err := openCapture(cmd, name, func() {})
	if err != nil {
		return err
	}
	defer closeFile()
	out := cmd.OutOrStdout()
	asJSON := jsoniter.ConfigCompatibleWithStandardLibrary.NewEncoder(out)
	cfg.Tell = func(d replay.Difference) {
		if o.output == "json" {
			_ = asJSON.Encode(d)
		} else {
			fmt.Fprintf(out, "! %v\n", d)
		}
	}
	cfg.Secrets = o.secrets
	r := replay.New(cmd.Context(), cfg)
	v := newView(out, o.streams(keepWhole), r)
	readErr := v.read(cmd.Context(), src, func(*capture.Record, bool) error { return r.Err() })
	v.asm.Finish()
	result, err := r.Result()
	v.tell(cmd)
	if o.output == "json" {
		_ = asJSON.Encode(result)
	} else {
		fmt.Fprintf(out, "replayed %d requests on %d connections: %d replies and %d pushes alike, %d different, %d pieces of the capture could not be sent\n",
			result.Requests, result.Connections, result.Replies, result.Pushes, result.Different, result.Skipped)
	}
	switch {
	case r.Err() != nil:
		readErr = nil // the result says so
	case readErr != nil:
		readErr = fmt.Errorf("%s: %w", name, readErr)
	}
	if cmd.Context().Err() != nil {
		readErr = errors.Join(readErr, errors.New("interrupted before the end of the capture"))
	}
	return errors.Join(readErr, err)
}
