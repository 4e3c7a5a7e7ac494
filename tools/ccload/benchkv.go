package main

import (
	"fmt"

	"confcenter/kv"
	"confcenter/protocol"
)

// kvGets compares reading the state store with the bare server's answers of the
// same size.
func (b *bench) kvGets() error {
	return b.readsOfCeiling(1, reads{
		name: func(size, depth int) string {
			return fmt.Sprintf("KVGET of %d B, %d keys, depth %d, of ceiling", size, b.cfg.keys, depth)
		},
		size: b.loadForGets,
		rival: func(pid int, conns []*conn, depth int) *rival {
			return b.kvRival(pid, conns, depth, kvGetTape(newRandom(depth), b.cfg.keys))
		},
		targets: []depthTarget{{1, 0.85}, {16, 0.6}},
	})
}

// loadForGets fills the store with values that make replies of about kvReplySize
// and checks each one. It returns the size of the longest reply's body.
func (b *bench) loadForGets(c *conn) (int, error) {
	if err := b.loop.loadKeys(c, b.cfg.keys, kvValueSize, b.bar.to); err != nil {
		return 0, err
	}
	body, err := b.loop.kvGet(c, b.cfg.keys-1)
	if err != nil {
		return 0, err
	}
	value := max(1, kvValueSize+kvReplySize-len(body))
	if err := b.loop.loadKeys(c, b.cfg.keys, value, b.bar.to); err != nil {
		return 0, err
	}
	size := 0
	for i := range min(b.cfg.keys, benchFiles) {
		if body, err = b.loop.kvGet(c, i); err != nil {
			return 0, err
		}
		entry, _, err := protocol.ParseKVGot(body, kvNamespace, kvKey(i))
		if err != nil {
			return 0, err
		}
		if want := kv.StringValue(string(kvText(i, value))); !entry.Value.Equal(want) {
			return 0, fmt.Errorf("%s is %.200q, want %.200q", kvKey(i), entry.Value.Data, want.Data)
		}
		size = max(size, len(body))
	}
	return size, nil
}

// kvRival is a rival that plays a tape in a closed loop.
func (b *bench) kvRival(pid int, conns []*conn, depth int, t *tape) *rival {
	return &rival{pid: pid, run: func() (sample, error) {
		got, err := newClosedLoop(b.loop, conns, depth, t).run(b.cfg.slice)
		if err == nil {
			err = got.err()
		}
		if err != nil {
			return sample{}, err
		}
		return sample{rate: got.perSecond(), p99: micros(got.latency.ValueAtQuantile(99))}, nil
	}}
}

// kvWriter is a server for durable writes, with its connections.
func (b *bench) kvWriter() (*served, []*conn, error) {
	s, err := b.serve(1)
	if err != nil {
		return nil, nil, err
	}
	conns, err := b.loop.identify(dialing{addr: s.addr}, kvConns)
	if err != nil {
		s.stop()
		return nil, nil, err
	}
	return s, conns, nil
}

// kvPuts compares durable writes with Redis and etcd, which are as durable.
func (b *bench) kvPuts() error {
	s, conns, err := b.kvWriter()
	if err != nil {
		return err
	}
	defer s.stop()
	defer b.loop.closeAll(conns)
	redis, err := b.startRedis()
	if err != nil {
		return err
	}
	defer redis.stop()
	for _, at := range []struct {
		depth  int
		target float64
	}{{1, 0.8}, {16, 0.9}} {
		ours := b.kvRival(s.pid, conns, at.depth, kvPutTape(newRandom(at.depth), b.cfg.keys))
		theirs, err := b.redisRival(redis, at.depth)
		if err != nil {
			return err
		}
		if err := b.reportWaiting(ours, theirs, fmt.Sprintf("durable KVPUT of %d B, %d connections, depth %d, of Redis", kvValueSize, kvConns, at.depth), at.target); err != nil {
			return err
		}
	}
	put := b.kvRival(s.pid, conns, 1, kvPutTape(newRandom(0), b.cfg.keys))
	incr := b.kvRival(s.pid, conns, 1, kvIncrTape())
	if err := b.reportWaiting(incr, put, fmt.Sprintf("KVINCR of one key, %d connections, of KVPUT", kvConns), 1); err != nil {
		return err
	}
	return b.kvPutsOfEtcd(s, conns)
}

func (b *bench) kvPutsOfEtcd(s *served, conns []*conn) error {
	etcd, err := b.startEtcd()
	if err != nil {
		return err
	}
	defer etcd.stop()
	ours := b.kvRival(s.pid, conns, 1, kvPutTape(newRandom(1), b.cfg.keys))
	return b.reportWaiting(ours, b.etcdRival(etcd), fmt.Sprintf("durable KVPUT of %d B, %d connections, depth 1, of etcd", kvValueSize, kvConns), 4)
}

// reportWaiting compares two who wait for the disk.
func (b *bench) reportWaiting(ours, theirs *rival, name string, target float64) error {
	ours.waits, theirs.waits = true, true
	ratio, err := compare(ours, theirs, b.cfg.pairs)
	if err != nil {
		return err
	}
	return b.report(figure{Name: name, Value: ratio, Target: target, Detail: fmt.Sprintf("%v of %v", ours, theirs)})
}

// kvWatches measures how long after a put's acknowledgement the last of many
// watchers is told.
func (b *bench) kvWatches() error {
	s, err := b.serve(1, "--max-connections", fmt.Sprint(b.cfg.watchers+100))
	if err != nil {
		return err
	}
	defer s.stop()
	f, err := newKVFanout(b.loop, s.addr, b.cfg.watchers)
	if err != nil {
		return err
	}
	defer f.close()
	var late, all []float64
	for i := range fanoutWarmup + 10*b.cfg.pairs {
		if err := b.loop.wait(pushPause); err != nil {
			return err
		}
		r, err := f.change()
		if err != nil {
			return err
		}
		if i >= fanoutWarmup {
			late = append(late, max(0, millis(r.all-r.reply)))
			all = append(all, millis(r.all))
		}
	}
	return b.report(figure{
		Name: fmt.Sprintf("%d watchers of one key told after the reply, p50", b.cfg.watchers), Value: median(late), AtMost: true, Target: 10, Unit: "ms",
		Detail: fmt.Sprintf("p99 %.2f ms; %.2f ms after the request", quantile(late, 0.99), median(all)),
	})
}
