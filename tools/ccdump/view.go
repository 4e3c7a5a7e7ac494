package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/stream"
	"confcenter/tools/ccdump/talk"
)

const (
	// keepLines is how much of a body is kept where lines are cut: the largest
	// request.
	keepLines = 4 << 20
	// keepWhole is the same where whole bodies are printed.
	keepWhole = 32 << 20
	// keepSummary suffices for codes, names and most pushes.
	keepSummary = 64 << 10
	// flushEvery is how long a line of a live view may wait to be flushed, in ns.
	flushEvery = 50e6
)

// view takes packets to printed lines.
type view struct {
	decoder *capture.Decoder
	asm     *stream.Assembler
	packets int64
	useless map[string]int64 // packets, by what is wrong with them

	out     *bufio.Writer
	flushed int64 // time of the last line that was flushed live
	printed bool
	err     error // of out, which stays once there is one
	line    []byte
}

// newView makes a view that gives sink what it finds.
func newView(out io.Writer, cfg stream.Config, sink stream.Sink) *view {
	return &view{decoder: capture.NewDecoder(), asm: stream.New(cfg, sink), useless: map[string]int64{}, out: bufio.NewWriterSize(out, 64<<10)}
}

// newLines makes a view that prints lines to out as o says.
func newLines(o *options, out io.Writer) *view {
	var v *view
	style := protocol.BodyStyle(max(0, slices.Index(bodyStyles, o.body)))
	text := &talk.Text{Printer: protocol.Printer{Style: style}, Location: o.zone()}
	json := &talk.JSON{Bodies: o.body != "none"}
	cfg := talk.Config{Filter: o.filter, Subjects: o.output == "json", Secrets: o.secrets}
	cfg.Show = func(l *talk.Line) {
		if o.output == "json" {
			v.line = json.Append(v.line[:0], l)
		} else {
			v.line = text.Append(v.line[:0], l)
		}
		v.print(v.line)
	}
	keep := keepLines
	if o.output == "json" || o.body == "whole" || o.body == "pretty" {
		keep = keepWhole
	}
	v = newView(out, o.streams(keep), talk.New(cfg))
	return v
}

func (v *view) print(b []byte) {
	v.printed = true
	_, v.err = v.out.Write(b)
}

// flush writes out what was printed.
func (v *view) flush() { v.err = v.out.Flush() }

// flushing is a reader that flushes output before each read, which may block.
type flushing struct {
	io.Reader
	flush func()
}

func (f flushing) Read(p []byte) (int, error) {
	f.flush()
	return f.Reader.Read(p)
}

// pump reads all packets of a source and calls each, unless nil, with every record, and
// whether it is a segment of the ports.
func (v *view) pump(ctx context.Context, src capture.Source, each func(rec *capture.Record, wanted bool) error) error {
	err := v.read(ctx, src, each)
	v.asm.Finish()
	v.flush()
	return errors.Join(err, v.err)
}

// checkEvery is how many packets pass between two checks of the context.
const checkEvery = 1024

func (v *view) read(ctx context.Context, src capture.Source, each func(rec *capture.Record, wanted bool) error) error {
	var rec capture.Record
	for {
		if v.packets%checkEvery == 0 && ctx.Err() != nil {
			return nil
		}
		if err := src.Next(&rec); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		wanted := v.packet(&rec)
		if each != nil {
			if err := each(&rec, wanted); err != nil {
				return err
			}
		}
		if v.err != nil {
			return nil // pump reports it
		}
	}
}

// packet reports whether a packet is a segment of the ports.
func (v *view) packet(rec *capture.Record) bool {
	v.packets++
	seg, err := v.decoder.Decode(rec)
	if err != nil {
		v.useless[err.Error()]++
		return false
	}
	return v.asm.Segment(seg)
}

// words says which packets of a capture were useless, and what to do if all were.
func (v *view) words() []string {
	var list []string
	for why, n := range v.useless {
		list = append(list, fmt.Sprintf("%d packets were passed over: %s", n, why))
	}
	slices.Sort(list)
	stats := v.asm.Stats()
	switch {
	case stats.Frames == 0 && stats.TLS > 0:
		list = append(list, fmt.Sprintf("no frame was found: %d connections are TLS, which ccdump does not read; tshark does: see docs/debugging.md", stats.TLS))
	case stats.Frames == 0:
		list = append(list, fmt.Sprintf("no frame was found: %d packets, %d of them TCP, %d of those ignored; is --port right?", v.packets, stats.Segments, stats.Ignored))
	}
	return list
}

// tell prints words to standard error, after the lines.
func (v *view) tell(cmd *cobra.Command) {
	for _, line := range v.words() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), line)
	}
}

// dump prints the lines of a file.
func dump(o *options, name string, cmd *cobra.Command) error {
	v := newLines(o, cmd.OutOrStdout())
	src, closeFile, err := openCapture(cmd, name, v.flush)
	if err != nil {
		return err
	}
	defer closeFile()
	err = v.pump(cmd.Context(), src, nil)
	v.tell(cmd)
	if frames := v.asm.Stats().Frames; frames > 0 && !v.printed {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: none of %d frames fits the filters\n", cmd.CommandPath(), frames)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
