package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a line on a terminal; anywhere else nothing is printed.
type progress struct {
	*progressbar.ProgressBar
	start, end int64 // as a ticker: the time of the run that it shows
}

const progressSteps = 1000

// newProgress makes a line that is drawn on w if that is a terminal.
func newProgress(w io.Writer, what string) *progress {
	f, ok := w.(*os.File)
	return &progress{ProgressBar: progressbar.NewOptions(progressSteps,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(ok && term.IsTerminal(int(f.Fd()))),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)}
}

// during makes the line follow the next d of l.
func (p *progress) during(l *loop, d time.Duration) {
	p.start = l.clock()
	p.end = p.start + int64(d)
	l.every(p)
}

func (p *progress) tick(now int64) int64 {
	p.to(float64(now-p.start) / float64(max(1, p.end-p.start)))
	return now + int64(200*time.Millisecond)
}

// to draws the line for a part between 0 and 1 of the whole.
func (p *progress) to(part float64) { _ = p.Set(int(min(max(part, 0), 1) * progressSteps)) }

// done removes the line.
func (p *progress) done() { _ = p.Finish() }

// clear removes the line until it is next drawn.
func (p *progress) clear() { _ = p.Clear() }
