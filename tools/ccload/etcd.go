package main

import (
	"bytes"
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
func (b *bench) startEtcd() (*process, error) {
	client, err := freeAddr()
	if err != nil {
		return nil, err
	}
	peer, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return b.startOther("etcd", client, []string{"etcd", "--name", "one", "--data-dir", b.work + "/etcd",
		"--listen-client-urls", "http://" + client, "--advertise-client-urls", "http://" + client,
		"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
		"--initial-cluster", "one=http://" + peer, "--log-level", "error"})
}

// etcdPut is the method that writes a key, as gRPC names it.
const etcdPut = "/etcdserverpb.KV/Put"

// etcdLoad writes from several connections of its own, one request at a time on
// each. It speaks gRPC by hand, which for one method is a header and two fields.
type etcdLoad struct {
	addr    string
	clients []*http.Client
	keys    int
}

// etcdRival keeps kvConns writes in flight.
func (b *bench) etcdRival(p *process) *rival {
	load := &etcdLoad{addr: p.addr, keys: b.cfg.keys}
	for range kvConns {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		load.clients = append(load.clients, &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: askLimit})
	}
	return &rival{pid: p.pid, run: func() (sample, error) { return load.run(b.cfg.slice) }}
}

// run writes for d, after a warm-up of a tenth of it.
func (e *etcdLoad) run(d time.Duration) (sample, error) {
	var done atomic.Int64
	var stop atomic.Bool
	var running sync.WaitGroup
	failures := make(chan error, len(e.clients))
	for i, client := range e.clients {
		running.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for !stop.Load() {
				if err := e.put(client, kvKey(rnd.IntN(e.keys)), kvText(rnd.Int(), kvValueSize)); err != nil {
					failures <- err
					return
				}
				done.Add(1)
			}
		})
	}
	time.Sleep(d / 10)
	before, begun := done.Load(), time.Now()
	time.Sleep(d)
	rate := float64(done.Load()-before) / time.Since(begun).Seconds()
	stop.Store(true)
	running.Wait()
	select {
	case err := <-failures:
		return sample{}, err
	default:
		return sample{rate: rate}, nil
	}
}

func (e *etcdLoad) put(client *http.Client, key string, value []byte) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+e.addr+etcdPut, bytes.NewReader(etcdPutRequest(key, value)))
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

// etcdPutRequest is a PutRequest{key: 1, value: 2} behind gRPC's five bytes.
func etcdPutRequest(key string, value []byte) []byte {
	message := binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(key)))
	message = append(append(message, key...), 2<<3|2)
	message = append(binary.AppendUvarint(message, uint64(len(value))), value...)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}
