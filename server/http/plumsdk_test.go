package http

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sdk does what Plum's C++ SDK does, byte for byte: a connection for each call, the
// header lines of cpp-httplib 0.14, JSON with sorted members, its own way to escape
// keys, its cache, and its reading of streams.
type sdk struct {
	t      testing.TB
	addr   string
	ns     string
	values map[string]string // its cache
	types  map[string]string
	seen   []string // what subscribers were told, "key=value"
}

func newSDK(t testing.TB, k *kit, ns string) *sdk {
	return &sdk{t: t, addr: k.Addr().String(), ns: ns, values: map[string]string{}, types: map[string]string{}}
}

// escape is httplib's: blank, plus, quotes and what is not ASCII. A question mark, a
// percent sign and a hash are sent as they are.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			b.WriteString("%20")
		case c == '+':
			b.WriteString("%2B")
		case c >= 0x80 || c == '\'' || c == ',' || c == ';' || c == '\r' || c == '\n':
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// request is one call; its reply is closed by the server or after its length.
func (s *sdk) request(method, path, body string) (status int, text string) {
	s.t.Helper()
	c, r := s.open(method, path, body)
	defer func() { _ = c.Close() }()
	status, length, chunked := s.head(r)
	if status == 204 {
		return status, ""
	}
	var out []byte
	var err error
	switch {
	case chunked:
		var b strings.Builder
		for chunk, ok := readChunk(r); ok; chunk, ok = readChunk(r) {
			b.WriteString(chunk)
		}
		out = []byte(b.String())
	case length >= 0:
		out = make([]byte, length)
		_, err = io.ReadFull(r, out)
	default:
		out, err = io.ReadAll(r)
	}
	require.NoError(s.t, err)
	return status, string(out)
}

func (s *sdk) open(method, path, body string) (net.Conn, *bufio.Reader) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetDeadline(time.Now().Add(patience)))
	head := method + " " + escape(path) + " HTTP/1.1\r\nAccept: */*\r\nConnection: close\r\n"
	if body != "" {
		head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\nContent-Type: application/json\r\n"
	}
	_, err = io.WriteString(c, head+"Host: "+s.addr+"\r\nUser-Agent: cpp-httplib/0.14.0\r\n\r\n"+body)
	require.NoError(s.t, err)
	return c, bufio.NewReader(c)
}

// head reads the status line and the header.
func (s *sdk) head(r *bufio.Reader) (status, length int, chunked bool) {
	s.t.Helper()
	line, err := r.ReadString('\n')
	require.NoError(s.t, err)
	_, err = fmt.Sscanf(line, "HTTP/1.1 %d", &status)
	require.NoError(s.t, err, line)
	length = -1
	for {
		line, err = r.ReadString('\n')
		require.NoError(s.t, err)
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		switch strings.ToLower(name) {
		case "":
			return status, length, chunked
		case "content-length":
			length, err = strconv.Atoi(value)
			require.NoError(s.t, err)
		case "transfer-encoding":
			chunked = value == "chunked"
		}
	}
}

func readChunk(r *bufio.Reader) (string, bool) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", false
	}
	size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
	if err != nil || size == 0 {
		return "", false
	}
	chunk := make([]byte, size+2)
	if _, err := io.ReadFull(r, chunk); err != nil {
		return "", false
	}
	return string(chunk[:size]), true
}

// refresh merges a list into the cache; a key that is gone stays.
func (s *sdk) refresh() bool {
	s.t.Helper()
	status, body := s.request("GET", "/v1/kv/"+s.ns, "")
	var items []map[string]any
	if status != 200 || json.Unmarshal([]byte(body), &items) != nil {
		return false
	}
	for _, item := range items {
		key, ok1 := item["key"].(string)
		value, ok2 := item["value"].(string)
		kind, ok3 := item["type"].(string)
		if !ok1 || !ok2 || !ok3 {
			return false // an exception ends the load
		}
		s.values[key], s.types[key] = value, kind
	}
	return true
}

func (s *sdk) put(key, value, kind string) bool {
	s.t.Helper()
	body, err := json.Marshal(map[string]string{"type": kind, "value": value}) // sorted, as the SDK's
	require.NoError(s.t, err)
	status, _ := s.request("PUT", "/v1/kv/"+s.ns+"/"+key, string(body))
	if status != 200 {
		return false
	}
	s.values[key], s.types[key] = value, kind
	return true
}

func (s *sdk) remove(key string) bool {
	s.t.Helper()
	status, _ := s.request("DELETE", "/v1/kv/"+s.ns+"/"+key, "")
	if status != 204 && status != 200 {
		return false
	}
	delete(s.values, key)
	return true
}

func (s *sdk) putBatch(pairs map[string]string) bool {
	s.t.Helper()
	items := []map[string]string{}
	for key, value := range pairs {
		items = append(items, map[string]string{"key": key, "type": "string", "value": value})
	}
	body, err := json.Marshal(map[string]any{"items": items})
	require.NoError(s.t, err)
	status, _ := s.request("POST", "/v1/kv/"+s.ns+"/batch", string(body))
	return status == 200
}

// get reads the cache first, and one key over HTTP if it is not there.
func (s *sdk) get(key, fallback string) string {
	s.t.Helper()
	if value, ok := s.values[key]; ok {
		return value
	}
	status, body := s.request("GET", "/v1/kv/"+s.ns+"/"+key, "")
	var item map[string]any
	if status != 200 || json.Unmarshal([]byte(body), &item) != nil {
		return fallback
	}
	s.values[key], s.types[key] = item["value"].(string), item["type"].(string)
	return s.values[key]
}

func (s *sdk) getInt(key string, fallback int64) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(s.get(key, ""), 10, 64)
	if err != nil {
		return fallback
	}
	return n
}

// Behind --listen-as Plum's SDK has what the roles allow, and takes a refusal for a call that has
// failed: it goes on with what it has.
func TestPlumsSDKWithRightsAndWithout(t *testing.T) {
	k, with := rightsKit(t)
	with("* kv:plum", "read kv:shared")
	mine := newSDK(t, k, "plum")
	require.True(t, mine.put("k", "v", "string"))
	require.True(t, mine.putBatch(map[string]string{"a": "1", "b": "2"}))
	require.True(t, mine.remove("a"))
	fresh := newSDK(t, k, "plum")
	require.True(t, fresh.refresh())
	require.Equal(t, map[string]string{"k": "v", "b": "2"}, fresh.values)

	for _, ns := range []string{"shared", "other"} {
		s := newSDK(t, k, ns)
		require.Equal(t, ns == "shared", s.refresh(), ns)
		require.False(t, s.put("k", "v", "string"), ns)
		require.False(t, s.putBatch(map[string]string{"a": "1"}), ns)
		require.False(t, s.remove("k"), ns)
		require.Equal(t, "fallback", s.get("k", "fallback"), ns)
		require.EqualValues(t, 7, s.getInt("k", 7), ns)
		require.Empty(t, s.values, ns)
	}

	with("read kv:plum") // it is taken away
	require.False(t, mine.put("k", "w", "string"))
	require.Equal(t, "v", mine.get("k", ""))
	with()
	require.False(t, fresh.refresh())
	require.Equal(t, "v", fresh.get("k", ""))
}
