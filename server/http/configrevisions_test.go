package http

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/server/http/sse"
)

const revisionsPath = configRoot + "revisions"

func (k *configKit) rev() int64 { return int64(k.files.Revisions().Revision()) }

// follow is a stream of documents that a from or an id precedes.
func (k *configKit) follow(query string) *eventSource { return k.listen(revisionsPath+"?"+query, "") }

// begun is a stream that begins now.
func (k *configKit) begun(query string) *eventSource {
	k.t.Helper()
	s := k.follow(query)
	require.Equal(k.t, []string{fmt.Sprintf("synced {\"rev\":%d} @%d", k.rev(), k.rev())}, s.take(1), "somewhere to go on from")
	return s
}

var mtimes = regexp.MustCompile(`"mtime":\d+`)

// told is take without the times.
func (s *eventSource) told(n int) (out []string) {
	s.t.Helper()
	for _, text := range s.take(n) {
		out = append(out, mtimes.ReplaceAllString(text, `"mtime":0`))
	}
	return out
}

// put and gone are events as told returns them; id is "" where the revision goes on.
func putText(name string, rev int64, rest, id string) string {
	return fmt.Sprintf(`put {"op":"put","name":%q,"mod":%d,"mtime":0,%s} @%s`, name, rev, rest, id)
}

func TestRevisionsAreToldAsTheyAreAskedFor(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `{"n":1}`, "b.json": `{"x" : 2}`, "_meta.json": `{"conf_inherit":{"b.json":"a.json"}}`})
	begin := k.rev()
	ids := func(rev int64) string { return strconv.FormatInt(rev, 10) }
	plain, prev, paths := k.begun("prefix=a"), k.begun("name=a&prev=1"), k.begun("name=a.json&changes=1")
	resolved := k.begun("resolved=1&prefix=")
	k.put("a.json", "{\n\"n\": 2}")
	rev := k.rev()
	require.Equal(t, []string{putText("a.json", rev, `"contents":{"n":2}`, ids(rev))}, plain.told(1))
	require.Equal(t, []string{putText("a.json", rev, `"contents":{"n":2},"prev":{"n":1}`, ids(rev))}, prev.told(1))
	require.Equal(t, []string{putText("a.json", rev, `"changes":[{"path":"/n","old":1,"new":2}]`, ids(rev))}, paths.told(1))
	require.Equal(t, []string{
		putText("a.json", rev, `"contents":{"n":2}`, ids(begin)),
		putText("b.json", rev, `"contents":{"n":2,"x":2}`, ids(rev)),
	}, resolved.told(2), "the last event of a revision has its id")
	require.Equal(t, 200, k.do("DELETE", fileQuery("a.json"), "").status)
	gone := k.rev()
	require.Equal(t, []string{fmt.Sprintf(`delete {"op":"delete","name":"a.json","mod":%d,"mtime":0} @%d`, gone, gone)}, paths.told(1))
	require.Equal(t, []string{fmt.Sprintf(`delete {"op":"delete","name":"a.json","mod":%d,"mtime":0,"prev":{"n":2}} @%d`, gone, gone)}, prev.told(1))
	state := k.follow("state&resolved&name=b")
	require.Equal(t, []string{putText("b.json", gone, `"contents":{"x":2}`, ""), fmt.Sprintf("synced {\"rev\":%d} @%d", gone, gone)}, state.told(2))
	past := k.follow(fmt.Sprintf("from=%d&prev&changes", begin))
	require.Equal(t, []string{
		putText("a.json", rev, `"changes":[{"path":"/n","old":1,"new":2}]`, ids(rev)),
		fmt.Sprintf(`delete {"op":"delete","name":"a.json","mod":%d,"mtime":0,"prev":{"n":2}} @%d`, gone, gone),
	}, past.told(2))
	require.Contains(t, k.follow("from=0&name=a").told(1)[0], `"contents":{"n":1}} @`, "the first there ever was")
}

func TestRevisionsOfAPath(t *testing.T) {
	pad := strings.Repeat("p", 3000)
	k := startConfig(t, map[string]string{
		"base.json": `{"x":{"y":1}}`, "b.json": `{"pad":"` + pad + `"}`, "c.json": `{"pad":"` + pad + `","x":0}`, "other.json": `{"x":{"y":7}}`,
		"_meta.json": `{"conf_inherit":{"b.json":"base.json","c.json":"base.json"}}`,
	}, func(cfg *Config) { cfg.Heartbeat = time.Hour })
	begin := k.rev()
	s := k.follow("path=/x/y&prev=1&state=1&resolved=1")
	state := s.told(4)
	require.Contains(t, state[0], `"name":"b.json"`)
	require.Contains(t, state[0], `"contents":1}`)
	require.Contains(t, state[2], `"name":"other.json"`)
	k.put("base.json", `{"x":{"y":1},"z":1}`)
	k.put("base.json", `{"x":{"y":[2]},"z":2}`)
	second := k.rev()
	require.Equal(t, []string{
		putText("b.json", second, `"contents":[2],"prev":1`, strconv.FormatInt(begin, 10)),
		putText("base.json", second, `"contents":[2],"prev":1`, strconv.FormatInt(begin, 10)),
	}, s.told(2))
	line, err := s.lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "id: "+k.id(uint64(second))+"\n", line, "what is long and no part of it comes last, and completes the revision")
	k.put("base.json", `{"z":2}`)
	for _, text := range append(k.follow(fmt.Sprintf("path=/x/y&prev=1&resolved=1&from=%d", second)).told(2), s.told(2)...) {
		require.Regexp(t, `^delete .*"prev":\[2\]\} @`, text)
	}
}

// A stream is told of what happened before it came, also if others were there who wanted
// something else.
func TestRevisionsBeforeAStreamAreReadBack(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `0`, "b.json": `0`})
	begin := k.rev()
	other := k.begun("name=a.json")
	for i := range 5 {
		k.put("b.json", strconv.Itoa(i+1))
		k.put("a.json", strconv.Itoa(i+1))
		require.Contains(t, other.told(1)[0], fmt.Sprintf(`"contents":%d}`, i+1))
	}
	late := k.follow(fmt.Sprintf("name=b.json&from=%d", begin))
	for i := range 6 {
		if i == 5 {
			k.put("b.json", "6")
		}
		require.Contains(t, late.told(1)[0], fmt.Sprintf(`"contents":%d}`, i+1))
	}
}

// Streams of all forms follow the same changes, and each is told in its own.
func TestRevisionsAreEncodedOnceInEachForm(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `0`})
	wants := map[string]string{"": `"contents":%[2]d}`, "&prev": `"contents":%[2]d,"prev":%[1]d}`, "&changes": `"changes":[{"path":"","old":%[1]d,"new":%[2]d}]}`}
	streams := map[*eventSource]string{}
	for query, want := range wants {
		for range 3 {
			streams[k.begun("name=a"+query)] = want
		}
	}
	for i := range 20 {
		k.put("a.json", strconv.Itoa(i+1))
		for s, want := range streams {
			require.Contains(t, s.told(1)[0], fmt.Sprintf(want, i, i+1))
		}
	}
	require.LessOrEqual(t, k.changes.frames.Encoded.Load(), uint64(20*len(wants)))
}

func TestRevisionsThatAreNoLongerKeptAreToldByName(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `1`, "b.json": `1`})
	begin := k.rev()
	k.put("a.json", "2")
	k.put("a.json", "3")
	now := k.rev()
	txn := &kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpDelete, NS: "@conf/versions", Key: "a.json//0000000001"}}}
	_, err := kv.Commit(t.Context(), k.log, txn)
	require.NoError(t, err)
	want := func(why, id string) []string {
		return []string{
			`resync {"code":1018,"error":"compacted","detail":"` + why + `: forget what this stream has told; the contents follow"} @` + id,
			putText("a.json", now, `"contents":3`, id), fmt.Sprintf("synced {\"rev\":%d} @%d", now, now),
		}
	}
	const gone, other = "what has changed since is no longer kept", "the id is not one of the data that the server has"
	require.Equal(t, want(gone, ""), k.follow(fmt.Sprintf("name=a&from=%d", begin)).told(3))
	require.Equal(t, want(gone, strconv.FormatInt(begin, 10)), k.listen(revisionsPath+"?name=a", k.id(uint64(begin))).told(3))
	for _, id := range []string{"abc", "-5", fmt.Sprint(now), k.id(uint64(now + 1000))} {
		require.Equal(t, want(other, ""), k.follow("name=a&from=0&last="+url.QueryEscape(id)).told(3), id)
	}
	k.put("b.json", "2")
	require.Contains(t, k.follow(fmt.Sprintf("name=b&from=%d", begin)).told(1)[0], `put {"op":"put","name":"b.json"`, "nothing of others is needed")
}

func TestRevisionsThatCannotBeAskedFor(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `1`})
	for query, want := range map[string]string{
		"name=a&prefix=b":                   "bad_request: name and prefix exclude each other",
		"from=1&state=1":                    "bad_request: from and state exclude each other",
		"from=-1":                           `bad_request: from is "-1", not a non-negative number`,
		"from=x":                            `bad_request: from is "x", not a non-negative number`,
		"from=99999":                        fmt.Sprintf("future_revision: from 99999 is in the future: the newest revision is %d", k.rev()),
		"state=maybe":                       `bad_request: state is "maybe", not 0 or 1`,
		"coalesce=1":                        `bad_request: this path has no query parameter "coalesce"`,
		"name=a&name=b":                     `bad_request: the query parameter "name" is given more than once`,
		"name=":                             `bad_name: filename "": is empty; give the path of a file below the configuration directory`,
		"name=../a.json":                    `bad_name: filename "../a.json": has a segment that begins with a dot; such files are not configuration`,
		"name=%2Fetc%2Fpasswd":              `bad_name: filename "/etc/passwd.json": begins with '/'; names are relative to the configuration directory`,
		"prefix=%00":                        "bad_key: ",
		"path=" + strings.Repeat("/", 4097): "too_large: a path has at most 4096 bytes",
		"prefix=" + strings.Repeat("x", kv.MaxKey+1): "name_too_long: ",
	} {
		a := k.get(revisionsPath + "?" + query)
		var got struct{ Error, Detail string }
		require.NoError(t, json.Unmarshal([]byte(a.body), &got), a.body)
		require.Contains(t, got.Error+": "+got.Detail, want, query)
		require.GreaterOrEqual(t, a.status, 400, query)
	}
	for _, p := range list(operations(t, openapiDocument(t))["config.revisions"].operation["parameters"]) {
		if p := resolve(t, openapiDocument(t), p); p["in"] == "query" {
			k.follow(fmt.Sprintf("%v=%v", p["name"], p["example"])).closeNow() // is answered with 200
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, k.do("POST", revisionsPath, "").status)
}

// A heartbeat says how far the stream has come, so that who resumes later need not look
// through what did not concern it.
func TestHeartbeatsOfRevisionsAreBookmarks(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `1`, "b.json": `1`}, func(cfg *Config) { cfg.Heartbeat = time.Millisecond })
	s := k.begun("name=a.json")
	k.put("b.json", `2`)
	rev := k.rev()
	for line := ""; line != "id: "+k.id(uint64(rev))+"\n"; {
		var err error
		line, err = s.lines.ReadString('\n')
		require.NoError(t, err)
		require.NotContains(t, line, "data:")
	}
	k.put("a.json", `2`)
	require.Contains(t, s.told(1)[0], `"contents":2}`)
}

// A reader that breaks off again and again, whose server is restarted, sees every revision
// once, in order and as a whole.
func TestRevisionsAreResumedWithoutGapOrDuplicate(t *testing.T) {
	files := map[string]string{"_meta.json": `{"conf_inherit":{"h1.json":"base.json","h2.json":"base.json"}}`}
	for _, name := range []string{"h1", "h2"} {
		files[name+".json"] = fmt.Sprintf(`{"pad":%q}`, strings.Repeat(name, 1500)) // more than one piece
	}
	k := startConfig(t, files)
	random := rand.New(rand.NewPCG(1, 2))
	const rounds = 60
	from := k.rev()
	last, told := k.id(uint64(from)), 0
	query := "?resolved=1&changes=1&from=" + strconv.FormatInt(from, 10)
	for restart := range 4 {
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range rounds {
				k.put("base.json", fmt.Sprintf(`{"n":%d}`, restart*rounds+i))
			}
		})
		s, part := k.listen(revisionsPath+query, last), []string{}
		for told < rounds*(restart+1) {
			if random.IntN(20) == 0 {
				s.closeNow()
				s, part = k.listen(revisionsPath+query, s.last), nil // a browser asks for the same URL again
			}
			m, ok := s.next()
			require.True(t, ok)
			require.Equal(t, "put", m.event)
			var e struct {
				Name string
				Mod  int64
			}
			require.NoError(t, json.Unmarshal([]byte(m.data), &e))
			require.Greater(t, e.Mod, from, "never again")
			if part = append(part, e.Name); m.last == k.id(uint64(e.Mod)) {
				require.Equal(t, []string{"base.json", "h1.json", "h2.json"}, part)
				require.Contains(t, m.data, fmt.Sprint(told), "one after the other")
				from, told, part = e.Mod, told+1, nil
			}
		}
		writer.Wait()
		last = s.last
		s.closeNow()
		k.close()
		k.open(t)
	}
	require.Equal(t, 4*rounds, told)
}

// Peers that do not read cost little, and are told of every revision when they read on: nothing is
// left out for them, as it is of keys.
func TestRevisionsThatAreNotRead(t *testing.T) {
	const streams, files, writes = 20, 2, 25
	k := startConfig(t, nil, func(cfg *Config) { cfg.Heartbeat = time.Hour })
	text := func(i int) string { return fmt.Sprintf(`{"n":%d,"pad":%q}`, i, long(i)) }
	for i := range files {
		k.put(fmt.Sprintf("%d.json", i), text(0))
	}
	k.unread(streams, revisionsPath+"?state=1&changes=1")
	require.LessOrEqual(t, k.changes.frames.Encoded.Load(), uint64(files), "each event is encoded once, for all of them")
	encoded, begin := k.changes.frames.Encoded.Load(), k.rev()
	for i := range writes {
		k.put(fmt.Sprintf("%d.json", i%files), text(i+1))
	}
	require.Equal(t, encoded, k.changes.frames.Encoded.Load(), "nothing is done for who waits")
	require.Less(t, k.cfg.Memory.Streams.Held(), int64(recentBytes+files*450<<10+streams*4*sse.Chunk))
	c := k.ask(fmt.Sprintf("GET %s?from=%d&changes=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", revisionsPath, begin))
	k.waiting(streams + 1)
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	s, before := k.resume(c), begin
	for i := range writes {
		m, ok := s.next()
		require.True(t, ok)
		var e struct {
			Mod     int64
			Changes []struct{ New json.RawMessage }
		}
		require.NoError(t, json.Unmarshal([]byte(m.data), &e))
		require.Equal(t, strconv.Itoa(i+1), string(e.Changes[0].New))
		require.Greater(t, e.Mod, before)
		require.Equal(t, k.id(uint64(e.Mod)), m.last)
		before = e.Mod
	}
	require.NoError(t, c.Close()) // or the body is read to its end, and there is none
}

// A log that cannot be read ends the stream, so that the client comes back, and tells the operator.
func TestRevisionsThatCannotBeRead(t *testing.T) {
	text, log := logged()
	k := startConfig(t, map[string]string{"a.json": `1`}, func(cfg *Config) { cfg.Log = log })
	begin := k.rev()
	k.put("a.json", "2")
	txn := &kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpPut, NS: "@conf/versions", Key: "a.json//0000000002", Value: kv.BytesValue([]byte("damaged"))}}}
	_, err := kv.Commit(t.Context(), k.log, txn)
	require.NoError(t, err)
	s := k.follow(fmt.Sprintf("from=%d", begin))
	_, err = io.ReadAll(s.lines)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	k.stop()
	require.Contains(t, text.String(), "a.json//0000000002")
	require.Contains(t, text.String(), `"route":"config.revisions"`)
}
