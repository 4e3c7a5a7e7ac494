package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// dumped is the part of a line of ccdump -o json that is compared.
type dumped struct {
	Name    string          `json:"svrname"`
	From    string          `json:"from"`
	Command string          `json:"command"`
	Seq     int             `json:"seq"`
	Size    int             `json:"size"`
	Code    *int            `json:"code"`
	Latency *float64        `json:"latency_us"`
	Body    json.RawMessage `json:"body"`
	Text    string          `json:"text"`
	Raw     int             `json:"raw"`
}

// ccdump lists the frames that ccdump finds in a capture, without remarks.
func ccdump(t *testing.T, program, file string) []dumped {
	t.Helper()
	out, err := exec.Command(program, "-o", "json", file).Output()
	require.NoError(t, err)
	var frames []dumped
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var line dumped
		if err := d.Decode(&line); err == io.EOF {
			return frames
		} else {
			require.NoError(t, err)
		}
		if line.Command != "" {
			frames = append(frames, line)
		}
	}
}

// plain is JSON with numbers as they are written.
func plain(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), string(text))
	return v
}

// Both tools show the same for the same capture, so that their users can talk to each
// other.
func TestWiresharkShowsWhatCCDumpShows(t *testing.T) {
	_, file := recorded(t)
	captures, err := filepath.Glob("../tools/ccdump/testdata/*.pcap*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(captures), 4, "one for each family of commands")
	program, err := buildDump()
	require.NoError(t, err)
	for _, file := range append(captures, file) {
		t.Run(filepath.Base(file), func(t *testing.T) { compareTools(t, program, file) })
	}
}

func compareTools(t *testing.T, program, file string) {
	want, got := ccdump(t, program, file), dissect(t, file)
	require.Greater(t, len(want), 10)
	require.Len(t, got, len(want))
	for i, w := range want {
		g := got[i]
		line := w.Command + " " + strconv.Itoa(w.Seq)
		require.Equal(t, w.Command, g.text("name"), line)
		require.Equal(t, w.Seq, g.number(t, "seq"), line)
		require.Equal(t, w.Size, g.number(t, "body_length"), line)
		require.Equal(t, w.Name, g.text("svrname"), line)
		require.Equal(t, w.Raw, len(g.octets(t, "raw")), line)
		if w.Code == nil {
			require.False(t, g.has("confcenter.code"), line)
		} else {
			require.Equal(t, *w.Code, g.number(t, "code"), line)
		}
		body := g.octets(t, "body")
		switch {
		case w.Body != nil:
			require.Equal(t, plain(t, w.Body), plain(t, []byte(body)), line)
			require.Equal(t, w.Size, len(body)+w.Raw, line)
		default:
			quoted := strconv.QuoteToGraphic(body)
			require.Equal(t, w.Text, quoted[1:len(quoted)-1], line)
		}
		if w.Latency == nil {
			require.False(t, g.has("confcenter.time"), line)
			continue
		}
		seconds, err := strconv.ParseFloat(g.text("time"), 64)
		require.NoError(t, err, line)
		require.InDelta(t, *w.Latency, seconds*1e6, 1, line)
	}
}
