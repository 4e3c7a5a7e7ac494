package client

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/protocol"
)

func TestGet(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k": [1, 2.50]}`, "base.json": `{"b":1}`, "null.json": `null`})
	s.change(func(s *fakeServer) { s.bases["a.json"] = []string{"base.json"}; s.mainConf = "a.json" })
	c := dial(t, s)

	d, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, `{"k":[1,2.50]}`, string(d.Raw()), "compact, numbers as they are")
	require.Equal(t, "a.json", d.Name)
	require.EqualValues(t, 100, d.Mtime)
	require.False(t, d.Stale())

	for _, tc := range []struct {
		about string
		q     Query
		want  string
		err   error
	}{
		{"merged", Query{Name: "a.json", Merged: true}, `{"b":1,"k":[1,2.50]}`, nil},
		{"part", Query{Name: "a.json", Path: "/k/1"}, `2.50`, nil},
		{"main config", Query{Path: "k/0"}, `1`, nil},
		{"no such part", Query{Name: "a.json", Path: "/x"}, ``, codes.NotFound},
		{"no such file", Query{Name: "x.json"}, ``, codes.NotFound},
		{"no such file, conditional", Query{Name: "x.json", NewerThan: 5}, ``, codes.NotFound},
		{"newer", Query{Name: "a.json", NewerThan: 99}, `{"k":[1,2.50]}`, nil},
		{"not newer", Query{Name: "a.json", NewerThan: 100}, ``, ErrUpToDate},
		{"null", Query{Name: "null.json"}, `null`, nil},
	} {
		d, err := c.GetConfig(t.Context(), tc.q)
		if tc.err != nil {
			require.ErrorIs(t, err, tc.err, tc.about)
			require.NotErrorIs(t, err, ErrUnreachable, tc.about)
			continue
		}
		require.NoError(t, err, tc.about)
		require.Equal(t, tc.want, string(d.Raw()), tc.about)
	}
}

// TestContentsThatAreRefusedAreNotMissing: CppCloud's wire has one code for both.
func TestContentsThatAreRefusedAreNotMissing(t *testing.T) {
	c := dial(t, newFakeServer(t, nil))
	_, err := c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`{"a":1,"a":2}`)})
	require.ErrorIs(t, err, codes.BadJSON)
	require.NotErrorIs(t, err, codes.NotFound)
	require.ErrorContains(t, err, "stands twice")
}

func TestGetWithoutMainConfig(t *testing.T) {
	c := dial(t, newFakeServer(t, nil))
	_, err := c.GetConfig(t.Context(), Query{})
	require.ErrorIs(t, err, codes.NotFound)
	require.ErrorContains(t, err, "app_profile")
}

func TestDeletedIsAbsent(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":1}`, "empty.json": `{}`})
	c := dial(t, s)
	require.NoError(t, c.Remove(t.Context(), "a.json"))
	_, err := c.Get(t.Context(), "a.json")
	require.ErrorIs(t, err, codes.NotFound)
	_, err = c.Get(t.Context(), "empty.json")
	require.NoError(t, err, "an empty file is not a deleted one")
}

// The answers that a server in the document's literal mode gives.
func TestLiteralAnswers(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
		var r protocol.Request
		if h.Command != protocol.GetConfig || r.Parse(body) != nil {
			return false
		}
		c.reply(h, map[string][]byte{"a.json": protocol.LiteralUpToDate, "b.json": protocol.LiteralNoSuchConfig}[string(r.Text("file_pattern"))])
		return true
	}
	c := dial(t, s)
	_, err := c.GetConfig(t.Context(), Query{Name: "a.json", NewerThan: 1})
	require.ErrorIs(t, err, ErrUpToDate)
	_, err = c.GetConfig(t.Context(), Query{Name: "b.json", NewerThan: 1})
	require.ErrorIs(t, err, codes.NotFound)
}

func TestSet(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":1}`})
	c := dial(t, s)
	num := func(n int32) *int32 { return &n }

	res, err := c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`{"k":2}`)})
	require.NoError(t, err)
	require.EqualValues(t, 101, res.Mtime)

	res, err = c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`{"k":3}`), Mtime: num(50)})
	require.ErrorIs(t, err, codes.Older)
	require.EqualValues(t, 101, res.Mtime)
	require.False(t, SafeToRetry(err))

	res, err = c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`{"k":3}`), IfMtime: num(100)})
	require.ErrorIs(t, err, codes.Conflict)
	require.EqualValues(t, 101, res.Mtime)

	_, err = c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`{"k":3}`), IfMtime: num(101)})
	require.NoError(t, err)
	_, err = c.Set(t.Context(), SetRequest{Name: "new.json", Contents: []byte(`[]`), IfMtime: num(0)})
	require.NoError(t, err)
	_, err = c.Set(t.Context(), SetRequest{Name: "new.json", Delete: true, IfMtime: num(1)})
	require.ErrorIs(t, err, codes.Conflict)
	require.NoError(t, c.Remove(t.Context(), "new.json"))
}

// What the server would misunderstand is not sent.
func TestSetChecksBeforeSending(t *testing.T) {
	s := newFakeServer(t, nil)
	c := dial(t, s)
	for _, tc := range []struct {
		about string
		req   SetRequest
		code  codes.Code
		text  string
	}{
		{"no name", SetRequest{Contents: []byte(`1`)}, codes.BadName, "empty"},
		{"no contents", SetRequest{Name: "a.json"}, codes.BadJSON, "line 1, column 1"},
		{"broken", SetRequest{Name: "a.json", Contents: []byte("{\n \"k\" 1}")}, codes.BadJSON, "line 2, column 6"},
		{"null", SetRequest{Name: "a.json", Contents: []byte(" null ")}, codes.BadRequest, "Delete"},
		{"delete with contents", SetRequest{Name: "a.json", Delete: true, Contents: []byte(`1`)}, codes.BadRequest, "Contents"},
		{"too large", SetRequest{Name: "a.json", Contents: append(append([]byte{'"'}, make5MB()...), '"')}, codes.TooLarge, "more than"},
	} {
		_, err := c.Set(t.Context(), tc.req)
		require.ErrorIs(t, err, tc.code, tc.about)
		require.ErrorContains(t, err, tc.text, tc.about)
		require.True(t, SafeToRetry(err), tc.about)
	}
	require.Empty(t, s.requests(protocol.SetConfig))
}

func make5MB() []byte {
	b := make([]byte, 5<<20)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// A write is sent once: if the connection ends, the caller has to find out.
func TestSetIsNeverRepeated(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
		if h.Command == protocol.SetConfig {
			c.Close()
		}
		return h.Command == protocol.SetConfig
	}
	c := dial(t, s)
	_, err := c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`1`)})
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, SafeToRetry(err))
	require.Len(t, s.requests(protocol.SetConfig), 1)
}

// A read is repeated on the next connection.
func TestGetSurvivesALostConnection(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	lost := 0
	s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
		if h.Command == protocol.GetConfig && lost < 2 {
			lost++ // one connection at a time, so one goroutine
			c.Close()
			return true
		}
		return false
	}
	c := dial(t, s)
	d, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, `1`, string(d.Raw()))
	require.Len(t, s.requests(protocol.GetConfig), 3)
}

func TestListAndClients(t *testing.T) {
	s := newFakeServer(t, map[string]string{"b.json": `{}`, "a.json": `[1]`})
	s.set("b.json", "")
	c := dial(t, s)
	files, err := c.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []FileInfo{{Name: "a.json", Mtime: 100, Size: 3, State: "good"}, {Name: "b.json", Mtime: 101, State: "deleted"}}, files)
	problems, err := c.Problems(t.Context())
	require.NoError(t, err)
	require.Empty(t, problems)
	clients, err := c.Clients(t.Context())
	require.NoError(t, err)
	require.Equal(t, []map[string]string{{"svrid": "2001", "svrname": "app1", "tag": "dev"}}, clients)
}

func TestClientsAreAskedForInPages(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
		if h.Command != protocol.GetCli {
			return false
		}
		var ask struct {
			After string
			Limit int
		}
		require.NoError(t, json.Unmarshal(body, &ask))
		after, err := strconv.Atoi(ask.After)
		require.NoError(t, err)
		var page [][]protocol.Property
		for id := max(after, 2000) + 1; id <= 3200 && len(page) < ask.Limit; id++ {
			page = append(page, []protocol.Property{{Name: "svrid", Value: strconv.Itoa(id)}})
		}
		reply := protocol.AppendRecords(nil, slices.Values(page), true)
		if after+len(page) < 3200 {
			reply = protocol.AppendMore(reply)
		}
		c.reply(h, reply)
		return true
	}
	clients, err := dial(t, s).Clients(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{`{"after":"0","limit":500}`, `{"after":"2500","limit":500}`, `{"after":"3000","limit":500}`}, s.requests(protocol.GetCli))
	require.Len(t, clients, 1200)
	require.Equal(t, []string{"2001", "3200"}, []string{clients[0]["svrid"], clients[1199]["svrid"]})
}

// A server whose pages do not go on is not asked for ever.
func TestPagesOfClientsThatDoNotEndAreAnError(t *testing.T) {
	for _, record := range [][]protocol.Property{
		{{Name: "svrname", Value: "no id"}},
		{{Name: "svrid", Value: "2001"}},
		{{Name: "svrid", Value: "-1"}},
	} {
		s := newFakeServer(t, nil)
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			if h.Command != protocol.GetCli {
				return false
			}
			c.reply(h, protocol.AppendMore(protocol.AppendRecords(nil, slices.Values([][]protocol.Property{record}), true)))
			return true
		}
		_, err := dial(t, s).Clients(t.Context())
		require.ErrorContains(t, err, "cannot be continued")
	}
}

// Whatever the server answers to whatever is asked, there is an error and the
// client goes on.
func TestUnexpectedAnswers(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{}`})
	var answer []byte
	s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
		if h.Command == protocol.Whoami {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if answer == nil {
			return false
		}
		c.reply(h, answer)
		return true
	}
	c := dial(t, s)
	for body, want := range map[string]error{
		`{"code":503,"desc":"queue full"}`: codes.Busy, `{"code":500}`: codes.Internal, `{"code":-7}`: codes.Code(-7),
		``: codes.Internal, `{`: codes.Internal, `true`: codes.Internal, `[]`: codes.Internal, `{"code":"0"}`: codes.Internal,
	} {
		s.change(func(*fakeServer) { answer = []byte(body) })
		for name, ask := range map[string]func(context.Context) error{
			"get": func(ctx context.Context) error { _, err := c.Get(ctx, "a.json"); return err },
			"set": func(ctx context.Context) error {
				_, err := c.Set(ctx, SetRequest{Name: "a.json", Contents: []byte(`1`)})
				return err
			},
			"list": func(ctx context.Context) error { _, err := c.List(ctx); return err },
			"cli":  func(ctx context.Context) error { _, err := c.Clients(ctx); return err },
			"watch": func(ctx context.Context) error {
				_, err := c.Watch(ctx, Query{Name: "a.json"}, func(*Document) {})
				return err
			},
		} {
			err := ask(t.Context())
			require.ErrorIs(t, err, want, "%s answered %q", name, body)
			require.False(t, SafeToRetry(err))
		}
	}
	s.change(func(*fakeServer) { answer = nil })
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
}
