package main

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/tools/ccdump/stream"
	"confcenter/tools/ccdump/talk"
)

func newSummary() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "summary FILE|-",
		Short: "Summarize a capture: commands, latencies, unanswered requests, pushes",
		Example: `  ccdump summary odd.pcap
  ccdump summary odd.pcap -o json | jq .commands`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return summarize(cmd, &o, args[0]) },
	}
	o.bindAll(cmd)
	return cmd
}

func summarize(cmd *cobra.Command, o *options, name string) error {
	src, closeFile, err := openCapture(cmd, name, func() {})
	if err != nil {
		return err
	}
	defer closeFile()
	sum := talk.NewSummary()
	v := newView(cmd.OutOrStdout(), o.streams(keepSummary), talk.New(talk.Config{Summary: sum}))
	readErr := v.pump(cmd.Context(), src, nil)
	all := total{sum: sum, stats: v.asm.Stats(), packets: v.packets, words: v.words()}
	if o.output == "json" {
		err = all.json(cmd.OutOrStdout())
	} else {
		err = all.text(cmd.OutOrStdout(), o.zone())
	}
	if readErr != nil {
		return fmt.Errorf("%s: %w", name, readErr)
	}
	return err
}

// total is a summary with the counts of the layers below.
type total struct {
	sum     *talk.Summary
	stats   stream.Stats
	packets int64
	words   []string
}

func (t *total) json(w io.Writer) error {
	e := jsoniter.ConfigCompatibleWithStandardLibrary.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		First      string              `json:"first,omitempty"`
		Last       string              `json:"last,omitempty"`
		Packets    int64               `json:"packets"`
		TCP        stream.Stats        `json:"tcp"`
		Silent     int64               `json:"connections_without_frames"`
		Commands   []talk.CommandCount `json:"commands"`
		Unanswered []talk.Missing      `json:"unanswered"`
		Pushes     []talk.PushCount    `json:"pushes"`
		Skipped    []talk.Skipped      `json:"skipped"`
		Remarks    []string            `json:"remarks,omitempty"`
	}{
		when(t.sum.First, time.UTC), when(t.sum.Last, time.UTC), t.packets, t.stats, t.sum.Silent,
		t.sum.Commands(), t.sum.Missing, t.sum.Pushes(), t.sum.Skips, t.words,
	})
}

func when(at int64, zone *time.Location) string {
	if at == 0 {
		return ""
	}
	return time.Unix(0, at).In(zone).Format(time.RFC3339Nano)
}

// shownPushes is how many files and keys the text lists.
const shownPushes = 30

func (t *total) text(out io.Writer, zone *time.Location) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	s := t.stats
	if t.sum.First != 0 {
		fmt.Fprintf(w, "from %s to %s, %v\n", when(t.sum.First, zone), when(t.sum.Last, zone), time.Duration(t.sum.Last-t.sum.First).Round(time.Microsecond))
	}
	fmt.Fprintf(w, "%d packets, %d connections (%d without a frame), %d frames, %d bytes of frames\n", t.packets, s.Conns, t.sum.Silent, s.Frames, s.FrameBytes)
	if s.Retransmits+s.OutOfOrder+s.Lost+s.Skipped > 0 {
		fmt.Fprintf(w, "%d segments again, %d out of order, %d bytes lost, %d bytes skipped\n", s.Retransmits, s.OutOfOrder, s.Lost, s.Skipped)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "command\trequests\tbytes\treplies\tbytes\trefused\tunanswered\tpushes\tp50 µs\tp90\tp99\tmax\t")
	for _, c := range t.sum.Commands() {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", c.Command, c.Requests, c.RequestBytes, c.Replies, c.ReplyBytes, c.Refused, c.Unanswered, c.Pushes)
		if l := c.Latency; l != nil {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t", l.P50, l.P90, l.P99, l.Max)
		} else {
			fmt.Fprint(w, "\t\t\t\t")
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return t.lists(out)
}

// lists prints what does not fit in the table.
func (t *total) lists(out io.Writer) error {
	w := bufio.NewWriter(out)
	if pushes := t.sum.Pushes(); len(pushes) > 0 {
		fmt.Fprintln(w, "\npushes")
		for i, p := range pushes {
			if i == shownPushes {
				fmt.Fprintf(w, "  and %d more files and keys\n", len(pushes)-i)
				break
			}
			fmt.Fprintf(w, "  %6d %q\n", p.Pushes, p.Subject)
		}
	}
	if len(t.sum.Missing) > 0 {
		fmt.Fprintln(w, "\nnever answered")
		for _, m := range t.sum.Missing {
			fmt.Fprintf(w, "  %s #%d %q %s seq=%d %q\n", m.Time, m.Conn, m.Name, m.Command, m.Seq, m.Subject)
		}
	}
	if len(t.sum.Skips) > 0 {
		fmt.Fprintln(w, "\nskipped")
		for _, s := range t.sum.Skips {
			fmt.Fprintf(w, "  #%d from the %s: %d bytes at offset %d: %s\n", s.Conn, s.From, s.Bytes, s.Offset, s.Reason)
		}
	}
	for i, line := range t.words {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}
