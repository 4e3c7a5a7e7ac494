package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// startEtcd starts a cluster of one member.
func (g *stage) startEtcd() *process {
	addr := must(freeAddr())
	client, peer := "http://"+addr, "http://"+must(freeAddr())
	return g.startInstalled("etcd", addr, "etcd", "--name", "one", "--data-dir", g.work+"/etcd",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "one="+peer, "--log-level", "error")
}

// etcdRival keeps kvConns writes in flight, one on each connection. It speaks gRPC
// by hand, which for one method is a header and two fields.
func (b *bench) etcdRival(p *process) *rival {
	var clients []*http.Client
	for range kvConns {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		clients = append(clients, &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: askLimit})
	}
	return &rival{pid: p.pid, run: func() (sample, error) {
		ctx, cancel := context.WithCancelCause(b.loop.ctx)
		var done atomic.Int64
		var running sync.WaitGroup
		for i, client := range clients {
			running.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 1))
				for ctx.Err() == nil {
					if err := etcdPut(client, p.addr, kvKey(rnd.IntN(b.cfg.keys)), kvText(rnd.Int(), kvValueSize)); err != nil {
						cancel(err)
					}
					done.Add(1)
				}
			})
		}
		time.Sleep(warmup(b.cfg.slice))
		before, begun := done.Load(), time.Now()
		time.Sleep(b.cfg.slice)
		rate := float64(done.Load()-before) / time.Since(begun).Seconds()
		cancel(nil)
		running.Wait()
		if err := context.Cause(ctx); err != context.Canceled {
			return sample{}, err
		}
		return sample{rate: rate}, nil
	}}
}

func etcdPut(client *http.Client, addr, key string, value []byte) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/etcdserverpb.KV/Put", bytes.NewReader(etcdPutRequest(key, value)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if status := res.Trailer.Get("Grpc-Status"); status != "0" {
		return fmt.Errorf("etcd answered %s, gRPC status %q: %s", res.Status, status, res.Trailer.Get("Grpc-Message"))
	}
	return nil
}

// etcdPutRequest is a PutRequest{key: 1, value: 2} after gRPC's five bytes.
func etcdPutRequest(key string, value []byte) []byte {
	message := binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(key)))
	message = append(append(message, key...), 2<<3|2)
	message = append(binary.AppendUvarint(message, uint64(len(value))), value...)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}
