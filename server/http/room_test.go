package http

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/kv"
)

// startSmall starts a gateway with so large a budget.
func startSmall(t *testing.T, budget int64) *kit {
	return start(t, func(cfg *Config, _ *Stores) { cfg.Memory = memory.Divide(budget) })
}

// bodies checks that nothing is held any more.
func (k *kit) bodiesAreGone() {
	k.t.Helper()
	require.Eventually(k.t, func() bool { return k.cfg.Memory.Bodies.Held() == 0 }, patience, 1e6)
}

const busyBody = `"error":"busy"`

// 300 such bodies once took 2.8 GB.
func TestUnfinishedBodiesAreRefusedBeforeTheyAreRead(t *testing.T) {
	const size = 1 << 20
	k := startSmall(t, 128<<20)
	pool, taken, refused := k.cfg.Memory.Bodies, 0, 0
	for range 12 {
		c := k.send(fmt.Sprintf("PUT /v1/config/file?name=a.json HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", size))
		defer func() { _ = c.Close() }()
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		if r.StatusCode == http.StatusContinue {
			_, err = io.WriteString(c, "{")
			require.NoError(t, err)
			taken++
			require.EqualValues(t, taken*size, pool.Held())
			continue
		}
		refused++
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
		require.Equal(t, "1", r.Header.Get("Retry-After"))
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), busyBody)
		require.True(t, r.Close, "nothing of the body is read")
	}
	require.Equal(t, int(mostRoom(pool)/size), taken)
	require.EqualValues(t, refused, pool.Refused())
	require.LessOrEqual(t, pool.Held(), pool.Limit())

	require.Equal(t, http.StatusOK, k.do("PUT", "/v1/config/file?name=b.json", `"`+strings.Repeat("x", 30_000)+`"`).status, "who needs little is served")
	for _, path := range []string{"/v1/kv/ns/k", "/v1/store/key?ns=ns&key=k"} {
		a := k.do("PUT", path, `{"value":"`+strings.Repeat("x", size)+`"}`)
		require.Equal(t, http.StatusServiceUnavailable, a.status, path)
		require.Contains(t, a.body, "other requests have", "Plum's clients, too, are told to come back")
	}
}

// 300 such headers, which nothing counted, took 330 MB of a budget of 128 MiB.
func TestUnfinishedHeadersAreRefusedBeforeTheyAreRead(t *testing.T) {
	k := startSmall(t, 128<<20)
	pool := k.cfg.Memory.Bodies
	var lines strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&lines, "%x:\r\n", 4096+i)
	}
	head := "GET /livez HTTP/1.1\r\nHost: localhost\r\n" + lines.String()
	send := func() net.Conn {
		c := k.send("")
		_, _ = io.WriteString(c, head) // it may be reset in the middle
		return c
	}
	whole := int64(len(head)) * headFactor
	var open []net.Conn
	for n := range pool.Limit() / whole {
		open = append(open, send())
		require.Eventually(t, func() bool { return pool.Held() == (n+1)*whole }, patience, time.Millisecond, "%d", n)
	}
	c := send()
	text, _ := io.ReadAll(c)
	require.True(t, strings.HasPrefix(string(text), "HTTP/1.1 503 "), "%.100s", text)
	require.Contains(t, string(text), "Retry-After: 1")
	require.NoError(t, c.Close())
	require.Equal(t, http.StatusOK, k.get("/livez").status, "a short one is served")

	_, err := io.WriteString(open[0], "\r\n")
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Eventually(t, func() bool { return pool.Held() == int64(len(open)-1)*whole }, patience, time.Millisecond)
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	k.bodiesAreGone()
}

// net/http reads what a handler has left of a body, which is none of the next header.
func TestABodyThatNobodyReadsIsNoHeader(t *testing.T) {
	k := startSmall(t, 128<<20)
	c := k.ask("")
	defer func() { _ = c.Close() }()
	replies := bufio.NewReader(c)
	for range 3 {
		_, err := fmt.Fprintf(c, "PUT /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 200_000, strings.Repeat("x", 200_000))
		require.NoError(t, err)
		r, err := http.ReadResponse(replies, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, r.StatusCode)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
	}
	require.Zero(t, k.cfg.Memory.Bodies.Refused())
}

func TestAStreamTakesMoreThanItsConnection(t *testing.T) {
	k := startSmall(t, 128<<20)
	pool := k.cfg.Memory.Connections
	before := pool.Held()
	var open []net.Conn
	stream := func(path string) (net.Conn, *http.Response) {
		c := k.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		return c, r
	}
	for i, path := range []string{"/v1/stream?namespace=ns", "/v1/store/stream?ns=ns", "/v1/config/stream", "/v1/config/revisions"} {
		c, r := stream(path)
		require.Equal(t, http.StatusOK, r.StatusCode)
		open = append(open, c)
		require.EqualValues(t, (i+1)*memory.StreamCost, pool.Held()-before)
	}
	rest := pool.Limit() - pool.Held()
	require.True(t, pool.Take(rest))
	c, r := stream("/v1/config/stream")
	require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
	require.NoError(t, c.Close())
	pool.Give(rest)
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return pool.Held() == before }, patience, time.Millisecond)
}

func TestRoomOfBodiesIsGivenBack(t *testing.T) {
	k := startSmall(t, 128<<20)
	for range 3 {
		for _, path := range []string{"/v1/config/file?name=a.json", "/v1/store/key?ns=ns&key=k", "/v1/store/txn"} {
			k.do("PUT", path, `{"value":"`+strings.Repeat("x", 900_000)+`"}`)
			k.bodiesAreGone()
		}
	}
	require.Equal(t, http.StatusOK, k.get("/v1/store/key?ns=ns&key=k").status)
	require.Equal(t, http.StatusOK, k.get("/v1/config/file?name=a.json").status)
	k.bodiesAreGone()
	c := k.send("PUT /v1/config/file?name=a.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
	require.Eventually(t, func() bool { return k.cfg.Memory.Bodies.Held() > 0 }, patience, 1e6)
	require.NoError(t, c.Close())
	k.bodiesAreGone()
}

func TestBodiesWithoutALengthTakeTheirRoomStepByStep(t *testing.T) {
	k := startSmall(t, 128<<20)
	pool := k.cfg.Memory.Bodies
	rest := pool.Limit() - 100<<10
	require.True(t, pool.Take(rest))
	put := func(size int) (int, string) {
		r, err := http.NewRequest("PUT", k.url+"/v1/config/file?name=a.json", io.MultiReader(strings.NewReader(`"`+strings.Repeat("x", size)+`"`)))
		require.NoError(t, err)
		reply, err := k.client.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		return reply.StatusCode, string(text)
	}
	status, text := put(20_000)
	require.Equal(t, http.StatusOK, status, text)
	status, text = put(500_000)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, busyBody)
	pool.Give(rest)
	status, text = put(500_000)
	require.Equal(t, http.StatusOK, status, text)
	k.bodiesAreGone()
}

// Who has been answered and goes on sending holds no room of others, and has that of the next request
// as soon as the answer is there.
func TestABodyThatIsCutOffHasGivenItsRoomBackWhenThatIsSaid(t *testing.T) {
	k := startSmall(t, 128<<20)
	pool := k.cfg.Memory.Bodies
	limit := smallBody
	c := k.ask(fmt.Sprintf("POST /v1/store/incr?ns=n&key=k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", 2*limit, strings.Repeat(" ", limit)))
	require.Eventually(t, func() bool { return pool.Held() > int64(limit)/2 }, patience, time.Millisecond)
	_, err := io.WriteString(c, " ")
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
	require.Zero(t, pool.Held(), "though the rest has not come")
	require.NoError(t, c.Close())
}

func TestLongAnswersTakeTheirRoom(t *testing.T) {
	k := startSmall(t, 128<<20)
	pool := k.cfg.Memory.Bodies
	value := strings.Repeat("x", 800_000)
	require.Equal(t, http.StatusOK, k.do("PUT", "/v1/store/key?ns=ns&key=long", `{"value":"`+value+`"}`).status)
	require.Equal(t, http.StatusOK, k.do("PUT", "/v1/store/key?ns=ns&key=short", `{"value":"x"}`).status)
	require.Equal(t, http.StatusOK, k.do("PUT", "/v1/config/file?name=long.json", `"`+value+`"`).status)
	long := []string{
		"/v1/store/key?ns=ns&key=long", "/v1/store/key?ns=ns&key=long&revision=1", "/v1/store/keys?ns=ns", "/v1/store/keys?ns=ns&contains=long",
		"/v1/store/history?ns=ns&key=long", "/v1/kv/ns/long", "/v1/kv/ns",
		"/v1/config/file?name=long.json", "/v1/config/file?name=long.json&raw", "/v1/config/resolved?name=long.json",
	}
	k.bodiesAreGone()
	require.True(t, pool.Take(mostRoom(pool)))
	for _, path := range long {
		a := k.get(path)
		require.Equal(t, http.StatusServiceUnavailable, a.status, path)
		require.Equal(t, "1", a.header.Get("Retry-After"), path)
	}
	for _, path := range []string{"/v1/store/key?ns=ns&key=short", "/v1/store/keys?ns=ns&keys_only", "/v1/config/files", "/v1/status", "/metrics"} {
		require.Equal(t, http.StatusOK, k.get(path).status, path)
	}
	pool.Give(mostRoom(pool))
	for _, path := range long {
		require.Equal(t, http.StatusOK, k.get(path).status, path)
	}
	k.bodiesAreGone()
}

// Plum's list of namespaces has no pages: it is sent in pieces instead.
func TestNamespacesTakeTheirRoom(t *testing.T) {
	k := startSmall(t, 128<<20)
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprintf("%0250d", i))
		require.Equal(t, http.StatusOK, k.do("PUT", "/v1/store/key?ns="+want[i]+"&key=k", `{"value":"x"}`).status)
	}
	k.bodiesAreGone()
	pool := k.cfg.Memory.Bodies
	others := pool.Limit() - 60<<10
	require.True(t, pool.Take(others))
	a := k.get("/v1/kv")
	require.Equal(t, `{"namespaces":["`+strings.Join(want, `","`)+"\"]}\n", a.body)
	require.Empty(t, a.header.Get("Content-Length"), "it is never there as a whole")
	require.Equal(t, http.StatusServiceUnavailable, k.get("/v1/store/namespaces").status)
	require.Equal(t, http.StatusOK, k.get("/v1/store/namespaces?limit=10").status)
	pool.Give(others)
	k.bodiesAreGone()
}

func TestClientsAreListedInPiecesThatTakeTheirRoom(t *testing.T) {
	tcp := newFakeTCP(time.UnixMilli(5000))
	tcp.list = nil
	for i := range 2000 {
		tcp.list = append(tcp.list, roster.Client{ID: int32(2001 + i), Name: strings.Repeat("n", 1000)})
	}
	k := startBeside(t, tcp, func(cfg *Config, _ *Stores) { cfg.Memory = memory.Divide(128 << 20) })
	pool := k.cfg.Memory.Bodies
	others := pool.Limit()/2 - 1
	require.True(t, pool.Take(others), "the list has 2 MB, and 1 MB is left of what one answer may have")
	a := k.get("/v1/clients")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Empty(t, a.header.Get("Content-Length"), "it is never there as a whole")
	var got struct{ Clients []struct{ ID int32 } }
	require.NoError(t, json.Unmarshal([]byte(a.body), &got))
	require.Len(t, got.Clients, 2000)
	for i, one := range got.Clients {
		require.EqualValues(t, 2001+i, one.ID)
	}
	require.Eventually(t, func() bool { return pool.Held() == others }, patience, 1e6)
	require.True(t, pool.Take(pool.Limit()-others))
	a = k.get("/v1/clients")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.body, busyBody)
}

// A buffer that grows by doubling would hold up to twice the body.
func TestBodiesAreReadIntoBuffersOfTheirSize(t *testing.T) {
	const size = 1_000_000
	for _, length := range []int64{size, -1} {
		w := newReply(httptest.NewRecorder(), memory.NewPool(8<<20), nil)
		w.b = nil // not one that another test has made larger
		r := httptest.NewRequest("PUT", "/", io.LimitReader(neverEnding('x'), size))
		r.ContentLength = length
		require.NoError(t, w.read(r))
		require.Len(t, w.b, size)
		if length > 0 {
			require.Less(t, cap(w.b), size+16<<10)
		} else {
			require.LessOrEqual(t, int64(cap(w.b)), w.room.held+smallRoom*2)
		}
	}
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

func TestTransactionsTakeRoomForWhatTheyAreMadeOf(t *testing.T) {
	k := startSmall(t, 128<<20)
	pool := k.cfg.Memory.Bodies
	require.True(t, pool.Take(pool.Limit()-200<<10))
	ops := strings.TrimSuffix(strings.Repeat(`{"key":"k","value":"v"},`, kv.MaxOps), ",")
	a := k.do("POST", "/v1/store/batch?ns=ns", `{"items":[`+ops+`]}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
}
