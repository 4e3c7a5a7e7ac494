package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

// packets returns the packets of a capture.
func packets(t *testing.T, file string) []capture.Record {
	t.Helper()
	in, err := os.Open(filepath.Join("testdata", file))
	require.NoError(t, err)
	defer in.Close()
	src, err := capture.Open(in)
	require.NoError(t, err)
	var all []capture.Record
	for {
		var rec capture.Record
		err := src.Next(&rec)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		rec.Data = bytes.Clone(rec.Data)
		all = append(all, rec)
	}
}

// without writes a capture that lacks one of the packets.
func without(t *testing.T, all []capture.Record, lost int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lost.pcapng")
	save, closeFile, err := saveTo(name, all[0].Link)
	require.NoError(t, err)
	for i := range all {
		if i != lost {
			require.NoError(t, save(&all[i]))
		}
	}
	require.NoError(t, closeFile())
	return name
}

// framesOf returns the commands in a packet.
func framesOf(t *testing.T, rec *capture.Record) []protocol.Command {
	t.Helper()
	seg, err := capture.NewDecoder().Decode(rec)
	require.NoError(t, err)
	var found []protocol.Command
	for b := seg.Payload; len(b) > 0; {
		h, err := protocol.ParseHeader(b)
		require.NoError(t, err)
		found = append(found, h.Command)
		b = b[protocol.HeaderSize+int(h.BodyLen):]
	}
	return found
}

// Missing bytes are reported once; everything else is paired, in order of arrival and
// with its times.
func TestCapturesThatMissOnePacket(t *testing.T) {
	all := packets(t, "config.pcap")
	for name, text := range map[string]string{"lost-request": `,"key_pattern":"/o/a"}`, "lost-reply": `"contents":1}`} {
		t.Run(name, func(t *testing.T) {
			lost := slices.IndexFunc(all, func(rec capture.Record) bool { return bytes.Contains(rec.Data, []byte(text)) })
			require.Positive(t, lost)
			file := without(t, all, lost)
			s := ccdump(t, file, "--utc", "--body", "whole")
			require.Zero(t, s.code, s.status)
			golden(t, name+".txt", s.out)
			s = ccdump(t, "summary", file, "--utc")
			require.Zero(t, s.code, s.status)
			golden(t, name+".summary", s.out)
		})
	}
}

// Whichever packet is missing, nothing is wrongly reported as unanswered, and only what
// that packet asked is unknown.
func TestAnyMissingPacketHidesItsOwnFramesOnly(t *testing.T) {
	const never, unseen = "was never answered", "its request was not seen"
	for _, one := range recorded {
		all := packets(t, one.file)
		show := func(file string) (out string, frames int) {
			s := ccdump(t, file, "--utc", "--body", "none")
			require.Zero(t, s.code, s.status)
			// After a gap only commands of the table are taken for frames.
			return s.out, strings.Count(s.out, " seq=") - strings.Count(s.out, " the reply to ") - strings.Count(s.out, never) - strings.Count(s.out, "no such command")
		}
		whole, frames := show(filepath.Join("testdata", one.file))
		for i := range all {
			said := framesOf(t, &all[i])
			if len(said) == 0 || protocol.Lookup(said[0].Request()) == nil {
				continue
			}
			requests := 0
			for _, cmd := range said {
				if !cmd.IsReply() {
					requests++
				}
			}
			out, left := show(without(t, all, i))
			require.Equal(t, frames-len(said), left, "%s without packet %d %v\n%s", one.file, i, said, out)
			require.LessOrEqual(t, strings.Count(out, never), strings.Count(whole, never), "%s without packet %d %v\n%s", one.file, i, said, out)
			require.LessOrEqual(t, strings.Count(out, unseen), strings.Count(whole, unseen)+requests, "%s without packet %d %v\n%s", one.file, i, said, out)
		}
	}
}
