package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// What the figures of HTTP are measured with: one key, by Plum's routes.
const (
	httpConns  = 64
	httpKey    = "key"
	httpPath   = "/v1/kv/" + kvNamespace + "/" + httpKey
	httpStream = "/v1/stream?namespace=" + kvNamespace
	// httpPuts is how many different values are written, one after the other.
	httpPuts = 1024
)

// framing splits what arrives on a connection that does not speak our protocol.
type framing interface {
	// frames hands on complete messages and returns the rest.
	frames(c *conn, data []byte, now int64) (rest []byte, err error)
}

// dialHTTP opens n connections for requests whose replies have bodies of size bytes, or
// of any size if that is below 0.
func (l *loop) dialHTTP(addr string, n, size int, urgent bool) ([]*conn, error) {
	var conns []*conn
	for range n {
		c, err := l.dial(addr, ignore{}, urgent)
		if err != nil {
			return nil, err
		}
		c.framing = &httpReplies{size: size}
		conns = append(conns, c)
	}
	return conns, nil
}

// fetch sends one request on a connection of its own and returns the reply's header,
// without the date, and body.
func fetch(addr string, request []byte) (header http.Header, body []byte, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if _, err := c.Write(request); err != nil {
		return nil, nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	res.Header.Del("Date")
	body, err = io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %s: %.300q", res.Status, body)
	}
	return res.Header, body, err
}

// httpReplies is the framing of replies with a length. A status other than 200 and an
// unexpected length fail the connection: bodies are checked once before a load, not a
// million times in it.
type httpReplies struct {
	size int
	// refusals: what was refused because it is too much is a reply, too, and counts as failed.
	refusals bool
}

func (h *httpReplies) frames(c *conn, data []byte, _ int64) ([]byte, error) {
	for !c.closed {
		refused := h.refusals && bytes.HasPrefix(data, httpBusy)
		head, size, err := httpLengths(data)
		if err == nil && head > 0 && !refused {
			err = httpOnlyOK(data)
		}
		if err != nil {
			return nil, err
		}
		end := head + max(size, 0)
		if head == 0 || len(data) < end {
			break
		}
		if refused {
			c.to.reply(c, data[head:end])
		}
		if c.inflight == 0 || size < 0 || h.size >= 0 && size != h.size {
			return nil, fmt.Errorf("reply of %d bytes, want %d, to %d requests: %.300q", size, h.size, c.inflight, data)
		}
		c.inflight--
		c.answered++
		data = data[end:]
	}
	return data, nil
}

var (
	httpHeadEnd  = []byte("\r\n\r\n")
	httpLineEnd  = httpHeadEnd[:2]
	httpEventEnd = []byte("\n\n")
	httpOK       = []byte("HTTP/1.1 200 ")
	httpBusy     = []byte("HTTP/1.1 503 ")
	httpLength   = []byte("\r\nContent-Length: ")
	httpChunked  = []byte("\r\nTransfer-Encoding: chunked\r\n")
	httpEvent    = []byte("event: kv\n")
)

// httpHead returns the length of a reply's head, 0 if that is not complete, and the
// length it gives for the body, below 0 if none.
func httpHead(data []byte) (head, size int, err error) {
	if head, size, err = httpLengths(data); err == nil && head > 0 {
		err = httpOnlyOK(data)
	}
	return head, size, err
}

// httpOnlyOK fails for a reply with another status than 200.
func httpOnlyOK(data []byte) error {
	if !bytes.HasPrefix(data, httpOK) {
		return fmt.Errorf("answered %.300q", data)
	}
	return nil
}

// httpLengths is httpHead for any status.
func httpLengths(data []byte) (head, size int, err error) {
	end := bytes.Index(data, httpHeadEnd)
	if end < 0 {
		return 0, -1, nil
	}
	head, size = end+len(httpHeadEnd), -1
	if at := bytes.Index(data[:head], httpLength); at >= 0 {
		text, _, _ := bytes.Cut(data[at+len(httpLength):head], httpLineEnd)
		size, err = strconv.Atoi(string(text))
	}
	return head, size, err
}

// sseStream is the framing of a chunked stream of events; those called kv are pushes.
type sseStream struct {
	begun bool
	text  []byte // beginning of an event that is not complete
}

var errStreamEnded = errors.New("the stream has ended")

func (s *sseStream) frames(c *conn, data []byte, now int64) ([]byte, error) {
	if !s.begun {
		head, _, err := httpHead(data)
		if head == 0 || err != nil {
			return data, err
		}
		if !bytes.Contains(data[:head], httpChunked) {
			return nil, fmt.Errorf("a stream without chunks: %.300q", data)
		}
		s.begun, data = true, data[head:]
	}
	for !c.closed {
		line, rest, found := bytes.Cut(data, httpLineEnd)
		if !found {
			break
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return nil, fmt.Errorf("chunk: %w", err)
		}
		if size == 0 {
			return nil, errStreamEnded
		}
		if len(rest) < int(size)+len(httpLineEnd) {
			break
		}
		s.events(c, rest[:size], now)
		data = rest[int(size)+len(httpLineEnd):]
	}
	return data, nil
}

func (s *sseStream) events(c *conn, chunk []byte, now int64) {
	s.text = append(s.text, chunk...)
	text := s.text
	for {
		event, rest, found := bytes.Cut(text, httpEventEnd)
		if !found {
			break
		}
		if bytes.HasPrefix(event, httpEvent) {
			c.to.push(c, event, now)
		}
		text = rest
	}
	s.text = s.text[:copy(s.text, text)]
}

// httpGet returns a GET request.
func httpGet(addr, path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)
}

// httpGetTape asks for the key.
func httpGetTape(addr string) *tape {
	t := &tape{}
	t.add(httpGet(addr, httpPath))
	return t
}

// httpPutTape writes the key, each time with a different value of the same length.
func httpPutTape(addr string) *tape {
	t := &tape{}
	for i := range httpPuts {
		body := fmt.Appendf(nil, `{"value":"%s","type":"string"}`, httpValue(i))
		t.add(fmt.Appendf(nil, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			httpPath, addr, len(body), body))
	}
	return t
}

func httpValue(i int) []byte { return fmt.Appendf(nil, "%06d%s", i, kvText(i, kvValueSize-6)) }

// newHTTPFanout is newFanout with n streams of the namespace of the writer's key. It
// counts the state with which each stream begins as a first push.
func newHTTPFanout(l *loop, addr string, n int) *fanout {
	f := &fanout{loop: l, writes: httpPutTape(addr), delay: newHistogram()}
	writer := must(l.dialHTTP(addr, 1, -1, true))
	must(newLoad(l, writer, f.writes).play(1, 1))
	f.writer = writer[0]
	f.writer.to = (*fanoutWriter)(f)
	f.number, f.begun = 1, l.clock()
	request := httpGet(addr, httpStream)
	for len(f.subscribers) < n {
		for range min(dialBatch, n-len(f.subscribers)) {
			c := must(l.dial(addr, f, false))
			c.framing = &sseStream{}
			c.write(request)
			f.subscribers = append(f.subscribers, c)
		}
		if err := f.until(func() bool { return f.told == len(f.subscribers) }); err != nil {
			check(fmt.Errorf("%d of %d streams have begun: %w", f.told, n, err))
		}
	}
	f.delay.Reset()
	check(l.wait(10 * time.Millisecond)) // for those that are told twice
	return f
}
