package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"confcenter/protocol"
)

// pushName is the document whose change is told to many.
const pushName = "push.json"

// fanout has many subscribers of one document and one writer, who changes it and
// waits until everybody is told.
type fanout struct {
	loop        *loop
	writer      *conn
	subscribers []*conn
	writes      source
	frame       []byte

	// of the round that is running
	round       int
	begun       int64
	first, last int64
	told        int
	replied     int64

	total   int64
	delay   *hdrhistogram.Histogram // from the writer's request to each push
	failure error
}

// round is one change as it was seen from outside, in nanoseconds.
type round struct {
	first  int64 // from the request to the first push
	all    int64 // from the request to the last push
	reply  int64 // from the request to the writer's reply
	spread int64 // from the first push to the last
}

// newFanout opens the writer and n subscribers. The document is made if it is not
// there.
func newFanout(l *loop, addr string, n int) (*fanout, error) {
	f := &fanout{loop: l, writes: newWrites([]string{pushName}, 200, int(time.Now().UnixMilli())), delay: newHistogram()}
	return f, f.open(addr, n, func() error {
		if _, err := l.set(f.writer, pushName, []byte(`{"n":0}`)); err != nil {
			return err
		}
		return l.subscribe(f.subscribers, pushName)
	})
}

// newKVFanout is newFanout with n watchers of one key.
func newKVFanout(l *loop, addr string, n int) (*fanout, error) {
	f := &fanout{loop: l, writes: &kvWrites{}, delay: newHistogram()}
	return f, f.open(addr, n, func() error {
		_, err := l.askAll(f.subscribers, protocol.KVWatch, []byte(`{"ns":"`+kvNamespace+`","key":"`+kvKey(0)+`"}`))
		return err
	})
}

// open opens the connections and has those who are to be told subscribe.
func (f *fanout) open(addr string, n int, subscribe func() error) error {
	writer, err := f.loop.identify(dialing{addr: addr, urgent: true}, 1)
	if err != nil {
		return err
	}
	f.writer = writer[0]
	if f.subscribers, err = f.loop.identify(dialing{addr: addr}, n); err != nil {
		return err
	}
	for _, c := range f.subscribers {
		c.to = f
	}
	if err := subscribe(); err != nil {
		return err
	}
	f.writer.to = (*fanoutWriter)(f)
	return nil
}

// change writes once and waits for every subscriber and the reply.
func (f *fanout) change() (round, error) {
	f.round++
	f.told, f.first, f.last, f.replied = 0, 0, 0, 0
	f.writer.expect = f.writes.expect()
	f.frame = f.writes.next(f.frame[:0])
	f.begun = f.loop.clock()
	f.writer.request(f.frame, f.begun)
	err := f.loop.until(askLimit, func() bool {
		return f.failure != nil || f.replied != 0 && f.told >= len(f.subscribers)
	})
	if err == nil {
		err = f.failure
	}
	if err != nil {
		return round{}, fmt.Errorf("%d of %d subscribers told: %w", f.told, len(f.subscribers), err)
	}
	f.total += int64(f.told)
	return round{first: f.first - f.begun, all: f.last - f.begun, reply: f.replied - f.begun, spread: f.last - f.first}, nil
}

// perSecond is the rate of pushes within a round: the first one starts the clock.
func (f *fanout) perSecond(r round) float64 {
	if r.spread <= 0 {
		return 0
	}
	return float64(len(f.subscribers)-1) / time.Duration(r.spread).Seconds()
}

func (f *fanout) close() {
	f.writer.close()
	f.loop.closeAll(f.subscribers)
}

func (f *fanout) reply(*conn, []byte) {}

func (f *fanout) push(c *conn, body []byte, now int64) {
	if c.round == f.round {
		f.failure = fmt.Errorf("told twice of one change: %.200s", body)
		return
	}
	c.round = f.round
	if f.told == 0 {
		f.first = now
	}
	f.told++
	f.last = now
	record(f.delay, now-f.begun, 1)
}

func (f *fanout) settle(*conn, int64) {}

// fanoutWriter is the fan-out as the receiver of its writer's connection.
type fanoutWriter fanout

func (w *fanoutWriter) reply(_ *conn, body []byte) {
	if !replyOK(body) {
		w.failure = replyError(w.writes.expect(), body)
	}
}

func (w *fanoutWriter) push(*conn, []byte, int64) {}

func (w *fanoutWriter) settle(c *conn, now int64) {
	_, n := c.sent.take(c.answered)
	c.answered -= n
	w.replied = now
}

// rounds collects what a fan-out did.
type rounds struct {
	first, all, reply, rate []float64 // ms, ms, ms, pushes a second
}

func (rs *rounds) add(f *fanout, r round) {
	rs.first = append(rs.first, millis(r.first))
	rs.all = append(rs.all, millis(r.all))
	rs.reply = append(rs.reply, millis(r.reply))
	rs.rate = append(rs.rate, f.perSecond(r))
}

func newPush() *cobra.Command {
	var t target
	var n, changes int
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Subscribe many, change once, see when each is told",
		Example: `  ccload push --subscribers 9000 --changes 50
  ccload push --addr 127.0.0.1:4801   # what a bare loop reaches`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 || changes < 1 {
				return usageError{fmt.Errorf("--subscribers %d and --changes %d must be at least 1", n, changes)}
			}
			l, err := newLoop(cmd.Context(), t.spin)
			if err != nil {
				return err
			}
			defer l.close()
			r, err := runPush(l, t.addr, n, changes, newProgress(cmd.ErrOrStderr(), "push"))
			if err != nil {
				return err
			}
			return r.print(cmd.OutOrStdout(), t.output)
		},
	}
	t.bind(cmd)
	cmd.Flags().IntVarP(&n, "subscribers", "n", 1000, "connections that subscribe to one document")
	cmd.Flags().IntVar(&changes, "changes", 20, "how often it is changed")
	return cmd
}

func runPush(l *loop, addr string, n, changes int, bar *progress) (result, error) {
	defer bar.done()
	f, err := newFanout(l, addr, n)
	if err != nil {
		return result{}, err
	}
	defer f.close()
	var rs rounds
	begun := l.clock()
	for i := range changes {
		r, err := f.change()
		if err != nil {
			return result{}, err
		}
		rs.add(f, r)
		bar.to(float64(i+1) / float64(changes))
	}
	seconds := time.Duration(l.clock() - begun).Seconds()
	return result{
		Name:     fmt.Sprintf("push/subscribers=%d", n),
		Requests: f.total, Seconds: seconds, PerSecond: float64(f.total) / seconds,
		Latency: quantiles(f.delay),
		Values: []value{
			{"first push p50", median(rs.first), "ms"},
			{"all told p50", median(rs.all), "ms"},
			{"writer reply p50", median(rs.reply), "ms"},
			{"first to last p50", median(rs.rate), "push/s"},
		},
	}, nil
}
