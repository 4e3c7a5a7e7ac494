package main

import (
	"bytes"
	"fmt"
	"net"
)

// What the figures of HTTP are measured with: one key, by Plum's routes.
const (
	httpConns  = 64
	httpPath   = "/v1/kv/" + kvNamespace + "/key"
	httpStream = "/v1/stream?namespace=" + kvNamespace
	// httpPuts is how many different values are written, one after the other.
	httpPuts = 1024
)

var (
	httpOK  = []byte("HTTP/1.1 200 ")
	kvEvent = []byte("event: kv\n")
)

// fetch sends one request on a connection of its own and returns the whole reply, which a
// server writes at once.
func fetch(addr string, request []byte) []byte {
	c := must(net.Dial("tcp", addr))
	defer c.Close()
	must(c.Write(request))
	reply := make([]byte, 64<<10)
	reply = reply[:must(c.Read(reply))]
	if !bytes.HasPrefix(reply, httpOK) {
		check(fmt.Errorf("%.100q is answered %.300q", request, reply))
	}
	return reply
}

// openHTTP opens n connections for requests whose replies have size bytes each, as those do
// that differ in nothing but a value and the time. The next one would not begin as a reply
// if one had another size.
func (l *loop) openHTTP(addr string, n, size int) (conns []*conn) {
	for range n {
		c := l.open(addr)
		c.framing = func(c *conn, data []byte, _ int64) (replies int, rest []byte, err error) {
			for ; len(data) >= size; data = data[size:] {
				if !bytes.HasPrefix(data, httpOK) || c.inflight == 0 {
					return replies, nil, fmt.Errorf("answered %.300q to %d requests", data, c.inflight)
				}
				c.inflight--
				replies++
			}
			return replies, data, nil
		}
		conns = append(conns, c)
	}
	return conns
}

// streamFraming is that of a stream of events; those called kv are pushes.
func streamFraming(c *conn, data []byte, at int64) (replies int, rest []byte, err error) {
	for {
		_, after, found := bytes.Cut(data, kvEvent)
		if !found {
			return 0, data[max(0, len(data)-len(kvEvent)+1):], nil // it may come in two parts
		}
		c.onPush(kvEvent, at)
		data = after
	}
}

// httpGet returns a GET request.
func httpGet(addr, path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)
}

// httpGetTape asks for the key.
func httpGetTape(addr string) *tape { return &tape{requests: [][]byte{httpGet(addr, httpPath)}} }

// httpPutTape writes the key, each time with a different value of the same length.
func httpPutTape(addr string) *tape {
	t := &tape{}
	for i := range httpPuts {
		body := fmt.Appendf(nil, `{"value":"%s","type":"string"}`, httpValue(i))
		t.requests = append(t.requests, fmt.Appendf(nil, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			httpPath, addr, len(body), body))
	}
	return t
}

func httpValue(i int) []byte { return fmt.Appendf(nil, "%06d%s", i, kvText(i, kvValueSize-6)) }
