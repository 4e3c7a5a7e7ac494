package main

import (
	"bytes"
	"fmt"
	"os"
)

// serveHTTP starts a real server with its HTTP side, whose address it returns. The
// caller stops it.
func (b *bench) serveHTTP(flags ...string) (*served, string, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	s, err := b.serve(1, append([]string{"--http", addr}, flags...)...)
	if err != nil {
		return nil, "", err
	}
	if err := b.listens(s.process, addr); err != nil {
		s.stop()
		return nil, "", err
	}
	return s, addr, nil
}

// bareHTTP starts a server that answers every request with reply. The caller stops it.
func (b *bench) bareHTTP(reply []byte) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.startOther("ceiling-http", addr, []string{self, "ceiling-http", "--listen", addr, "--reply", string(reply)})
}

// httpPuts compares durable writes by Plum's route with a bare handler, which has
// no disk to wait for.
func (b *bench) httpPuts() error {
	return b.webOfBare(httpPutTape, func(ours, theirs *rival) error {
		ours.waits = true
		ratio, err := compare(ours, theirs, b.cfg.pairs)
		if err != nil {
			return err
		}
		busy := median(ours.all(func(s sample) float64 { return s.busy }))
		detail := fmt.Sprintf("%v, %.0f%% of its core, %.1f µs each", ours, 100*busy, 1e6*busy/median(ours.rates()))
		what := fmt.Sprintf("durable PUT of %d B, one key, %d HTTP connections", kvValueSize, httpConns)
		if err := b.report(figure{Name: what, Value: median(ours.rates()), Target: 10_000, Unit: "/s", Detail: detail}); err != nil {
			return err
		}
		return b.report(figure{Name: what + ", of a bare handler", Value: ratio, Target: 0.5, Detail: fmt.Sprintf("%v of %v", ours, theirs)})
	})
}

// httpGets compares reads by Plum's route with a bare handler.
func (b *bench) httpGets() error {
	return b.webOfBare(httpGetTape, func(ours, theirs *rival) error {
		ratio, err := compare(ours, theirs, b.cfg.pairs)
		if err != nil {
			return err
		}
		return b.report(figure{
			Name: fmt.Sprintf("GET of %d B, one key, %d HTTP connections, of a bare handler", kvValueSize, httpConns), Value: ratio, Target: 0.7,
			Detail: fmt.Sprintf("%v of %v", ours, theirs),
		})
	})
}

// webOfBare starts a real server and a bare one that answers as the real one did,
// and has them measured with the same requests.
func (b *bench) webOfBare(requests func(addr string) *tape, measure func(ours, theirs *rival) error) error {
	s, addr, err := b.serveHTTP()
	if err != nil {
		return err
	}
	defer s.stop()
	if err := b.checkHTTP(addr); err != nil {
		return err
	}
	head, body, err := b.askOnce(addr, requests(addr).next(nil))
	if err != nil {
		return err
	}
	bare, err := b.bareHTTP(body)
	if err != nil {
		return err
	}
	defer bare.stop()
	// The date in the head always has the same length.
	bareHead, bareBody, err := b.askOnce(bare.addr, requests(bare.addr).next(nil))
	if err != nil {
		return err
	}
	if len(head) != len(bareHead) || !bytes.Equal(body, bareBody) {
		return fmt.Errorf("the bare handler answers %q, %q and the real one %q, %q", bareHead, bareBody, head, body)
	}
	ours, err := b.loop.dialHTTP(addr, httpConns, len(body), false)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(ours)
	theirs, err := b.loop.dialHTTP(bare.addr, httpConns, len(body), false)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(theirs)
	return measure(b.kvRival(s.pid, ours, 1, requests(addr)), b.kvRival(bare.pid, theirs, 1, requests(bare.addr)))
}

// checkHTTP writes the key and reads it back.
func (b *bench) checkHTTP(addr string) error {
	for _, request := range [][]byte{httpPutTape(addr).next(nil), httpGet(addr, httpPath)} {
		if _, body, err := b.askOnce(addr, request); err != nil || !bytes.Contains(body, httpValue(0)) {
			return fmt.Errorf("%.100q is answered %.300q: %w", request, body, err)
		}
	}
	return nil
}

// askOnce asks on a connection of its own.
func (b *bench) askOnce(addr string, request []byte) (head, body []byte, err error) {
	conns, err := b.loop.dialHTTP(addr, 1, -1, false)
	if err != nil {
		return nil, nil, err
	}
	defer b.loop.closeAll(conns)
	return b.loop.askHTTP(conns[0], request)
}

// httpStreams measures how long after a PUT is sent the last of many streams of its
// namespace has been told.
func (b *bench) httpStreams() error {
	s, addr, err := b.serveHTTP("--http-max-connections", fmt.Sprint(b.cfg.streams+100))
	if err != nil {
		return err
	}
	defer s.stop()
	f, err := newHTTPFanout(b.loop, addr, b.cfg.streams)
	if err != nil {
		return err
	}
	defer f.close()
	var all, late []float64
	for i := range fanoutWarmup + 10*b.cfg.pairs {
		if err := b.loop.wait(pushPause); err != nil {
			return err
		}
		r, err := f.change()
		if err != nil {
			return err
		}
		if i < fanoutWarmup {
			f.delay.Reset()
			continue
		}
		all = append(all, millis(r.all))
		late = append(late, max(0, millis(r.all-r.reply)))
	}
	return b.report(figure{
		Name: fmt.Sprintf("all %d SSE streams of a namespace told of a PUT, p50", b.cfg.streams), Value: median(all), AtMost: true, Target: 50, Unit: "ms",
		Detail: fmt.Sprintf("from the request to the last; p99 %.2f ms, %.2f ms after the reply, %.2f ms for the median stream",
			quantile(all, 0.99), median(late), micros(f.delay.ValueAtQuantile(50))/1000),
	})
}
