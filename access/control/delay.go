package control

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access/token"
	"confcenter/internal/metric"
)

// maxDelayed is how many refusals wait at a time unless Config says otherwise. Each holds a connection
// that has proved nothing, of which there is a limited number as well.
const maxDelayed = 1000

// refusals counts the refusals of wrong tokens, which are delayed.
type refusals struct {
	waiting         atomic.Int64
	delayed, atOnce atomic.Uint64
}

// Delay says how long to wait with the refusal that err is before it is sent: of a token or session that
// is no one's, so that tokens cannot be tried faster than that on any connection. A caller with a valid
// one is not refused, and so never waits, wherever wrong ones come from. When the wait is over, or the
// peer is gone, call done. 0: refuse at once, without a call of done: it is another refusal, or there
// are as many that wait as there may be. The nil Control delays nothing.
func (c *Control) Delay(err error) (wait time.Duration, done func()) {
	if c == nil || c.cfg.RefusalDelay <= 0 || !token.Wrong(err) {
		return 0, nil
	}
	if c.wrong.waiting.Add(1) > int64(cmp.Or(c.cfg.MaxDelayed, maxDelayed)) {
		c.wrong.waiting.Add(-1)
		c.wrong.atOnce.Add(1)
		return 0, nil
	}
	c.wrong.delayed.Add(1)
	return c.cfg.RefusalDelay, sync.OnceFunc(func() { c.wrong.waiting.Add(-1) })
}

// Readings are the numbers of /metrics.
func (c *Control) Readings() metric.Readings {
	if c == nil {
		c = new(Control) // the numbers are there, and 0
	}
	const help = "Wrong tokens and sessions that were refused, after the delay or at once because too many refusals waited."
	of := func(how string, n *atomic.Uint64) metric.Reading {
		return metric.Reading{Name: "access_wrong_tokens_total", Help: help, Labels: []metric.Label{{Name: "kind", Value: how}}, N: int64(n.Load())}
	}
	return metric.Readings{of("delayed", &c.wrong.delayed), of("at_once", &c.wrong.atOnce),
		{Name: "access_refusals_waiting", Help: "Refusals of wrong tokens and sessions that wait for their delay.", N: c.wrong.waiting.Load()}}
}
