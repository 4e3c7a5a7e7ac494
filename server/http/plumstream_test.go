package http

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

// observer is the SDK's reading of a stream: it knows frames by an empty line with
// LF only, keeps the last data line, and skips lines it does not know.
type observer struct {
	*sdk
	conn  net.Conn
	r     *bufio.Reader
	left  string // of its buffer
	raw   strings.Builder
	beats int
}

// observe opens a stream as the SDK does in its mode sse.
func (s *sdk) observe() *observer {
	s.t.Helper()
	o := &observer{sdk: s}
	o.conn, o.r = s.open("GET", "/v1/stream?namespace="+s.ns, "")
	status, _, chunked := s.head(o.r)
	require.Equal(s.t, 200, status)
	require.True(s.t, chunked)
	s.t.Cleanup(func() { _ = o.conn.Close() })
	return o
}

// chunk reads what the server flushed; false at the stream's end.
func (o *observer) chunk() bool {
	text, ok := readChunk(o.r)
	o.raw.WriteString(text)
	o.left += text
	for {
		frame, rest, found := strings.Cut(o.left, "\n\n")
		if !found {
			return ok
		}
		o.left = rest
		o.frame(frame)
	}
}

func (o *observer) frame(frame string) {
	event, data := "", ""
	for _, line := range strings.Split(frame, "\n") {
		switch {
		case strings.HasPrefix(line, "event:"):
			event = strings.TrimSpace(line[len("event:"):])
		case strings.HasPrefix(line, "data:"):
			data = strings.TrimSpace(line[len("data:"):])
		case strings.HasPrefix(line, ":"):
			o.beats++
		}
	}
	if event != "kv" {
		return
	}
	var item map[string]any
	if json.Unmarshal([]byte(data), &item) != nil {
		return // as the SDK drops it
	}
	key, value := item["key"].(string), item["value"].(string)
	if old, known := o.values[key]; known && old == value {
		return // it drops what it knows
	}
	o.values[key], o.types[key] = value, item["type"].(string)
	o.seen = append(o.seen, key+"="+value)
}

// until reads until the cache says what is wanted.
func (o *observer) until(key, value string) {
	o.t.Helper()
	for o.values[key] != value || o.types[key] == "" {
		require.True(o.t, o.chunk(), "the stream ended before %s=%s", key, value)
	}
}

func TestP21BytesFromAnotherProcess(t *testing.T) {
	k := start(t, nil)
	require.True(t, newSDK(t, k, "ns").put("raw", "AAEC/wA=", "bytes"))
	second := newSDK(t, k, "ns")
	require.True(t, second.refresh())
	require.Equal(t, "AAEC/wA=", second.get("raw", ""))
	require.Equal(t, "bytes", second.types["raw"])
	o := newSDK(t, k, "ns").observe()
	o.until("raw", "AAEC/wA=")
}

// P22 is the SDK's basic program.
func TestP22BasicProgram(t *testing.T) {
	k := start(t, nil)
	s := newSDK(t, k, "basic")
	require.True(t, s.refresh(), "an empty namespace can be opened")
	require.True(t, s.put("status", "running", "string"))
	require.True(t, s.put("counter", "100", "int"))
	require.True(t, s.put("progress", "75.500000", "double"))
	require.True(t, s.put("enabled", "true", "bool"))
	require.True(t, s.put("raw", "AQL/AAU=", "bytes"))
	require.Equal(t, int64(100), s.getInt("counter", 0))
	require.Equal(t, "running", s.get("status", ""))
	require.Equal(t, "unknown", s.get("none", "unknown"))
	require.True(t, s.putBatch(map[string]string{"k1": "v1", "k2": "v2"}))
	require.False(t, s.putBatch(nil), "an empty batch is refused")
	require.Equal(t, "v1", s.get("k1", ""))
	require.True(t, s.remove("k1"))
	require.True(t, s.remove("k1"), "also what does not exist")
	require.Equal(t, "", s.get("k1", ""))
	require.False(t, s.put("", "x", "string"))
	require.False(t, s.put("keys", "x", "string"))
	require.False(t, s.put("batch", "x", "string"))
	fresh := newSDK(t, k, "basic")
	require.True(t, fresh.refresh())
	require.Equal(t, "AQL/AAU=", fresh.values["raw"])
	require.Len(t, fresh.values, 6)
}

// P23 is the demo that is killed at half its work and goes on from there.
func TestP23DemoResumes(t *testing.T) {
	k := start(t, nil)
	run := func(from, to int) {
		s := newSDK(t, k, "kv-demo")
		require.True(t, s.refresh())
		require.Equal(t, int64(from), s.getInt("task.progress", 0))
		require.Equal(t, from > 0, s.get("app.crashed", "false") == "true")
		require.True(t, s.put("app.crashed", "true", "bool"))
		for at := from + 10; at <= to; at += 10 {
			require.True(t, s.put("task.progress", strconv.Itoa(at), "int"))
			require.True(t, s.put("task.checkpoint", fmt.Sprintf("step_%d", at), "string"))
			require.True(t, s.put("task.ratio", fmt.Sprintf("%f", float64(at)/100), "double"))
		}
	}
	run(0, 50) // and is killed
	run(50, 100)
	require.True(t, newSDK(t, k, "kv-demo").remove("app.crashed"))
	s := newSDK(t, k, "kv-demo")
	require.True(t, s.refresh())
	require.Equal(t, int64(100), s.getInt("task.progress", 0))
	require.Equal(t, "step_100", s.get("task.checkpoint", ""))
	require.Equal(t, "false", s.get("app.crashed", "false"))
}

func TestP24PollingObserver(t *testing.T) {
	k := start(t, nil)
	writer, reader := newSDK(t, k, "ns"), newSDK(t, k, "ns")
	require.True(t, reader.refresh())
	require.True(t, writer.put("a", "1", "int"))
	require.True(t, reader.refresh(), "its next poll")
	require.Equal(t, "1", reader.get("a", ""))
}

func TestP25ObserverIsToldOnce(t *testing.T) {
	// No time passes, so that each change comes because it was made.
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock = clocktest.NewFake(time.Now()) })
	writer := newSDK(t, k, "ns")
	o := newSDK(t, k, "ns").observe()
	for i := range 10 {
		require.True(t, writer.put("a", strconv.Itoa(i), "int"))
		o.until("a", strconv.Itoa(i))
	}
	require.Equal(t, []string{"a=0", "a=1", "a=2", "a=3", "a=4", "a=5", "a=6", "a=7", "a=8", "a=9"}, o.seen)
	require.Equal(t, 10, strings.Count(o.raw.String(), "event: kv"), "each change is told once")
}

func TestP26OtherNamespacesAreNotTold(t *testing.T) {
	k := start(t, nil)
	k.plumPut("other/early", "1", "int")
	o := newSDK(t, k, "ns").observe()
	k.plumPut("other/a", "1", "int")
	k.plumPut("nsx/a", "1", "int")
	_, err := k.commit(&kv.Txn{Then: []kv.Op{
		{Kind: kv.OpPut, NS: "mine", Key: "a", Value: kv.StringValue("x")}, {Kind: kv.OpPut, NS: "ns", Key: "b", Value: kv.StringValue("y")},
		{Kind: kv.OpPut, NS: "zz", Key: "a", Value: kv.StringValue("x")}}})
	require.NoError(t, err)
	k.plumPut("ns/a", "2", "int")
	o.until("a", "2")
	require.Equal(t, []string{"b=y", "a=2"}, o.seen)
}

func TestP27RemovalIsTold(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/a", "7", "int")
	o := newSDK(t, k, "ns").observe()
	o.until("a", "7")
	require.True(t, newSDK(t, k, "ns").remove("a"))
	o.until("a", "")
	require.Equal(t, []string{"a=7", "a="}, o.seen)
	require.Equal(t, "deleted", o.types["a"])
	require.Equal(t, int64(3), o.getInt("a", 3))
	require.Contains(t, o.raw.String(), "event: kv\ndata: {\"namespace\":\"ns\",\"key\":\"a\",\"value\":\"\",\"type\":\"deleted\"}\n\n")
}

func TestP28ObserverCatchesUpAfterARestart(t *testing.T) {
	dir := t.TempDir()
	k := startIn(t, dir, nil)
	k.plumPut("ns/a", "1", "int")
	k.plumPut("ns/b", "1", "int")
	o := newSDK(t, k, "ns").observe()
	o.until("b", "1")
	k.stop()
	for o.chunk() {
	}
	k = startIn(t, dir, nil)
	k.plumPut("ns/a", "2", "int")
	o.addr = k.Addr().String()
	again := o.observe() // with the same cache, and half a frame of the old stream
	again.left = "event: kv\ndata: {\"half"
	again.until("a", "2")
	require.Equal(t, []string{"a=1", "b=1", "a=2"}, o.seen)
}

func TestP29Heartbeat(t *testing.T) {
	fake := clocktest.NewFake(time.Now())
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock = fake })
	o := newSDK(t, k, "ns").observe()
	for beats := 1; beats < 4; beats++ { // the first is at the beginning
		for o.beats < beats {
			require.True(t, o.chunk())
		}
		fake.BlockUntil(2) // with that of the samples
		fake.Advance(3 * time.Second)
	}
	require.Regexp(t, `^(:\n\n)+$`, o.raw.String())
	require.NoError(t, o.conn.Close())
}

func TestP30RawBytes(t *testing.T) {
	k := start(t, nil)
	reply, err := http.Get(k.url + "/v1/stream?namespace=ns")
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	require.Equal(t, "text/event-stream", reply.Header.Get("Content-Type"))
	k.plumPut("ns/k", "a\r\nb<c>", "string")
	const want = ":\n\nevent: kv\ndata: {\"namespace\":\"ns\",\"key\":\"k\",\"value\":\"a\\r\\nb\\u003cc\\u003e\",\"type\":\"string\"}\n\n"
	got := make([]byte, len(want))
	_, err = io.ReadFull(reply.Body, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestP31StreamOfAllNamespaces(t *testing.T) {
	k := start(t, nil)
	k.plumPut("old/a", "1", "int")
	reply, err := http.Get(k.url + "/v1/stream")
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	r := bufio.NewReader(reply.Body)
	k.plumPut("one/a", "1", "int")
	k.plumPut("two/b", "2", "int")
	var data []string
	for len(data) < 2 {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, rest)
		}
	}
	require.Equal(t, []string{`{"namespace":"one","key":"a","value":"1","type":"int"}` + "\n", `{"namespace":"two","key":"b","value":"2","type":"int"}` + "\n"}, data)
	require.Equal(t, 405, k.do("POST", "/v1/stream", "").status)
	require.Equal(t, 400, k.get("/v1/stream?namespace="+strings.Repeat("n", 300)).status)
}

func TestP32LastEventIsTheFinalValue(t *testing.T) {
	k := start(t, nil)
	o := newSDK(t, k, "ns").observe()
	for i := range 5 {
		k.plumPut("ns/a", strconv.Itoa(i), "int")
	}
	k.plumPut("ns/end", "1", "int")
	o.until("end", "1")
	require.Equal(t, "4", o.values["a"])
	require.Equal(t, "a=4", o.seen[len(o.seen)-2])
	require.LessOrEqual(t, len(o.seen), 6)
}

func TestP33ManyClientsAgree(t *testing.T) {
	k := start(t, nil)
	const clients, keys = 64, 1000
	observers := make([]*observer, clients)
	for i := range observers {
		observers[i] = newSDK(t, k, "ns").observe()
	}
	var writers, readers sync.WaitGroup
	for part := range 4 {
		writers.Go(func() {
			for i := part; i < keys; i += 4 {
				txn := kv.PutTxn("ns", fmt.Sprintf("k%03d", i%200), kv.IntValue(int64(i)))
				if _, err := k.commit(txn); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, o := range observers {
		readers.Go(func() {
			for o.values["end"] != "1" && o.chunk() {
			}
		})
	}
	writers.Wait()
	k.plumPut("ns/end", "1", "int")
	readers.Wait()
	want := map[string]string{}
	for _, item := range k.plumList("ns") {
		want[item.Key] = item.Value
	}
	require.Len(t, want, 201)
	for _, o := range observers {
		require.Equal(t, want, o.values)
	}
}

// P38: a reader that takes nothing costs the writers nothing, and the server a bounded
// amount; when it reads on it gets where the others are.
func TestP38DeadReader(t *testing.T) {
	k := start(t, nil)
	o := newSDK(t, k, "ns").observe()
	value := strings.Repeat("v", 64<<10)
	const rounds, keys = 40, 10 // 26 MB, which no socket's buffers take
	for round := range rounds {
		txn := &kv.Txn{}
		for i := range keys {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k" + strconv.Itoa(i), Value: kv.StringValue(value + strconv.Itoa(round))})
		}
		_, err := k.commit(txn)
		require.NoError(t, err)
	}
	k.plumPut("ns/end", "1", "int")
	require.LessOrEqual(t, k.cfg.Memory.Streams.Held(), k.cfg.Memory.Streams.Limit()/4+int64(recentBytes+(keys+2)*70<<10), "changes, and encoded events")
	require.Eventually(t, func() bool { return k.hub.Behind() > 0 }, patience, time.Millisecond, "it did fall behind")
	require.NoError(t, o.conn.SetDeadline(time.Now().Add(patience)))
	o.until("end", "1")
	require.Less(t, strings.Count(o.raw.String(), "event: kv"), rounds*keys, "who falls behind is told less")
	for i := range keys {
		require.Equal(t, value+strconv.Itoa(rounds-1), o.values["k"+strconv.Itoa(i)])
	}
}

func TestStreamsEndAtOnce(t *testing.T) {
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock = clocktest.NewFake(time.Now()) }) // not at their next heartbeat
	o := newSDK(t, k, "ns").observe()
	k.stop()
	for o.chunk() {
	}
}
