package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a line on a terminal; nowhere else it prints anything. Its zero
// value and a nil one are silent.
type progress struct {
	bar *progressbar.ProgressBar

	// as a ticker: how far the time of a run has come
	start, end int64
}

const progressSteps = 1000

// isTerminal says whether w is somebody's screen.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// newProgress draws on w if that is a terminal.
func newProgress(w io.Writer, what string) *progress {
	if !isTerminal(w) {
		return nil
	}
	return &progress{bar: progressbar.NewOptions(progressSteps,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)}
}

// during lets the line follow the next d of l, if there is a line.
func (p *progress) during(l *loop, d time.Duration) {
	if p == nil {
		return
	}
	p.start = l.clock()
	p.end = p.start + int64(d)
	l.every(p)
}

func (p *progress) tick(now int64) int64 {
	p.to(float64(now-p.start) / float64(max(1, p.end-p.start)))
	return now + int64(200*time.Millisecond)
}

// say changes the text before the line.
func (p *progress) say(what string) {
	if p != nil {
		p.bar.Describe(what)
	}
}

// to draws the line for a part of the whole between 0 and 1.
func (p *progress) to(part float64) {
	if p != nil {
		_ = p.bar.Set(int(min(max(part, 0), 1) * progressSteps))
	}
}

// done removes the line.
func (p *progress) done() {
	if p != nil {
		_ = p.bar.Finish()
	}
}

// clear removes the line until it is drawn again, so that something else can be
// printed.
func (p *progress) clear() {
	if p != nil {
		_ = p.bar.Clear()
	}
}
