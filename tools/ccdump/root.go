package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/replay"
	"confcenter/tools/ccdump/stream"
	"confcenter/tools/ccdump/talk"
)

// usageError is a wrong command line.
type usageError struct{ error }

func exitCode(err error) int {
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.Is(err, replay.ErrDifferent):
		return exitDifferent
	case errors.Is(err, syscall.EPIPE): // the reader has seen enough
		return 0
	}
	return exitFailed
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "ccdump FILE|-",
		Short: "Show what is said on the wire between programs and a confcenter server",
		Long: `Print a line for each frame of a capture: time, connection, client, direction,
command, sequence, size, body, and for replies the time since the request.
FILE is pcap or pcapng, optionally gzipped; - is standard input.

Tokens and secret values are hidden, as far as they can be recognised: see
--secrets, and docs/debugging.md. Files that --write makes have everything.

What cannot be decoded is shown after an exclamation mark, with the reason and
its offset in the bytes of its direction. TLS is named, not read: docs/debugging.md
says how tshark does.`,
		Example: `  ccdump odd.pcap
  ccdump odd.pcap --client app1 --errors
  ccdump odd.pcap --file app1-dev --slower 10ms
  tcpdump -i any -w - port 4800 | ccdump -`,
		Args:          arguments("FILE"),
		RunE:          func(cmd *cobra.Command, args []string) error { return dump(&o, args[0], cmd) },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	o.bind(root)
	root.AddCommand(newLive(), newTap(), newReplay(), newSummary())
	return root
}

// arguments accepts one argument for each name.
func arguments(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usageError{fmt.Errorf("%s is missing", names[len(args)])}
		}
		if len(args) > len(names) {
			return usageError{fmt.Errorf("%q is one argument too many", args[len(names)])}
		}
		return nil
	}
}

// memory is for data that waits for other packets, in bytes.
const memory = 128 << 20

// options are shared by the verbs that print lines.
type options struct {
	ports    []int
	secrets  bool
	utc      bool
	body     string
	output   string
	commands []string
	filter   talk.Filter
}

var (
	bodyStyles = []string{protocol.BodyCut: "cut", protocol.BodyWhole: "whole", protocol.BodyPretty: "pretty", protocol.BodyNone: "none"}
	outputs    = []string{"text", "json"}
)

// bindAll binds what all verbs have, and checks all flags before a verb runs.
func (o *options) bindAll(cmd *cobra.Command) {
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
	f := cmd.Flags()
	f.IntSliceVarP(&o.ports, "port", "p", nil, "the server's port; may be repeated (default: any)")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVar(&o.secrets, "secrets", false, "show tokens and secret values, too")
	f.BoolVar(&o.utc, "utc", false, "print times as UTC instead of this machine's zone")
}

func (o *options) bind(cmd *cobra.Command) {
	o.bindAll(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.body, "body", "b", "cut", "bodies: cut, pretty, whole or none (json: none, or else whole)")
	f.StringSliceVarP(&o.commands, "command", "c", nil, "only these commands, by name or id, and their replies")
	f.StringVar(&o.filter.Client, "client", "", "only this client: svrname or pattern, svrid, or address")
	f.StringVarP(&o.filter.File, "file", "f", "", "only frames about this document: name or pattern, .json may be omitted")
	f.StringVarP(&o.filter.Key, "key", "k", "", "only frames about this key: NAMESPACE/KEY or pattern")
	f.BoolVarP(&o.filter.Errors, "errors", "e", false, "only refusals and oddities")
	f.DurationVar(&o.filter.Slower, "slower", 0, "only requests that took longer than this")
}

func (o *options) check() error {
	if !slices.Contains(outputs, o.output) {
		return usageError{fmt.Errorf("--output %s: must be one of %s", o.output, strings.Join(outputs, ", "))}
	}
	if o.body != "" && !slices.Contains(bodyStyles, o.body) {
		return usageError{fmt.Errorf("--body %s: must be one of %s", o.body, strings.Join(bodyStyles, ", "))}
	}
	if o.filter.Slower < 0 {
		return usageError{fmt.Errorf("--slower %v must not be negative", o.filter.Slower)}
	}
	for _, p := range o.ports {
		if p < 0 || p > math.MaxUint16 {
			return usageError{fmt.Errorf("--port %d must be at most 65535", p)}
		}
	}
	for _, pattern := range []string{o.filter.Client, o.filter.File, o.filter.Key} {
		if _, err := path.Match(pattern, ""); err != nil {
			return usageError{fmt.Errorf("%q: %w", pattern, err)}
		}
	}
	for _, name := range o.commands {
		id, err := parseCommand(name)
		if err != nil {
			return usageError{err}
		}
		o.filter.Commands = append(o.filter.Commands, id)
	}
	return nil
}

// parseCommand finds a command by its name or id.
func parseCommand(text string) (protocol.Command, error) {
	for _, row := range protocol.Commands {
		if strings.EqualFold(row.Name, text) {
			return row.ID, nil
		}
	}
	if n, err := strconv.ParseUint(text, 0, 16); err == nil {
		return protocol.Command(n).Request(), nil
	}
	return 0, fmt.Errorf("--command %s: there is no such command; PROTOCOL.md lists them", text)
}

func (o *options) streams(keep int) stream.Config {
	cfg := stream.Config{KeepBody: keep, Memory: memory}
	for _, p := range o.ports {
		if p != 0 {
			cfg.Ports = append(cfg.Ports, uint16(p))
		}
	}
	return cfg
}

func (o *options) zone() *time.Location {
	if o.utc {
		return time.UTC
	}
	return time.Local
}

// openCapture opens a capture, which the caller closes. It calls flush before each read
// of the file, which may block.
func openCapture(cmd *cobra.Command, name string, flush func()) (src capture.Source, closeFile func(), err error) {
	in, closeFile, err := openFile(cmd.Context(), name, cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	if src, err = capture.Open(flushing{in, flush}); err != nil {
		closeFile()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return src, closeFile, nil
}

// openFile opens a capture by name, - being standard input, which ends with ctx at
// the latest. It may then leave a read of standard input behind.
func openFile(ctx context.Context, name string, stdin io.Reader) (io.Reader, func(), error) {
	if name != "-" {
		f, err := os.Open(name)
		return f, func() { f.Close() }, err
	}
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, stdin)
		out.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { out.Close() })
	return in, func() {
		stop()
		in.Close()
	}, nil
}

// checkServer checks that the value of --to can be a server's address.
func checkServer(to string) error {
	if to == "" {
		return usageError{errors.New("--to is missing: the server's HOST:PORT")}
	}
	if _, _, err := net.SplitHostPort(to); err != nil {
		return usageError{fmt.Errorf("--to %s: must be HOST:PORT: %w", to, err)}
	}
	return nil
}
