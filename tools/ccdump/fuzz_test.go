package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/replay"
	"confcenter/tools/ccdump/stream"
	"confcenter/tools/ccdump/talk"
)

// FuzzCapture damages real captures: lines stay lines, JSON stays JSON, and nothing
// worse than an error happens.
func FuzzCapture(f *testing.F) {
	for _, one := range recorded {
		file, err := os.ReadFile(filepath.Join("testdata", one.file))
		require.NoError(f, err)
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1 && file[0] == 0x1f && file[1] == 0x8b {
			return // a small file can be a large one
		}
		for _, output := range []string{"text", "json"} {
			var out bytes.Buffer
			v := newLines(&options{body: "whole", output: output, utc: true}, &out)
			src, err := capture.Open(bytes.NewReader(file))
			if err != nil {
				require.NotEmpty(t, err.Error())
				return
			}
			_ = v.pump(context.Background(), src, nil)
			for line := range bytes.Lines(out.Bytes()) {
				line = bytes.TrimSuffix(line, []byte("\n"))
				if output == "json" {
					require.True(t, json.Valid(line), "%q", line)
				} else {
					require.Negative(t, bytes.IndexFunc(line, unicode.IsControl), "%q", line)
				}
			}
		}
		summed(t, file)
	})
}

// summed adds a capture up and prints it.
func summed(t *testing.T, file []byte) {
	src, err := capture.Open(bytes.NewReader(file))
	require.NoError(t, err)
	sum := talk.NewSummary()
	v := newView(io.Discard, stream.Config{KeepBody: keepSummary}, talk.New(talk.Config{Summary: sum}))
	_ = v.read(context.Background(), src, nil)
	v.asm.Finish()
	all := total{sum: sum, stats: v.asm.Stats(), packets: v.packets, words: v.words()}
	require.NoError(t, all.text(io.Discard, time.UTC))
	require.NoError(t, all.json(io.Discard))
}

// A replay that cannot reach the server says so once and stops reading.
func TestReplayStopsWithItsReason(t *testing.T) {
	r := replay.New(t.Context(), replay.Config{To: "127.0.0.1:1"})
	file, err := os.Open(filepath.Join("testdata", "config.pcap"))
	require.NoError(t, err)
	defer file.Close()
	src, err := capture.Open(file)
	require.NoError(t, err)
	v := newView(io.Discard, stream.Config{}, r)
	err = v.read(t.Context(), src, func(*capture.Record, bool) error { return r.Err() })
	require.Error(t, err)
	require.Equal(t, r.Err(), err)
	_, err = r.Result()
	require.ErrorIs(t, err, r.Err())
	require.False(t, errors.Is(err, replay.ErrDifferent))
}
