package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

func TestGetRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		ns, key := drawName(t, "ns"), drawName(t, "key")
		q := protocol.KVRead{NS: []byte(ns), Key: []byte(key), Rev: kv.Revision(rapid.Int64Min(0).Draw(t, "rev")), MinRev: kv.Revision(rapid.Int64Min(0).Draw(t, "min")), Raw: raw, Reveal: !raw}
		got, err := parsed(t, protocol.AppendKVRead(nil, q)).KVGet()
		require.NoError(t, err)
		require.Equal(t, q, got)

		want, rev := maybeEntry(t, ns, key), drawRevision(t, "at")
		e, at, err := protocol.ParseKVGot(protocol.AppendKVGot(nil, rev, want, raw), ns, key)
		require.NoError(t, err)
		require.Equal(t, want, e)
		require.Equal(t, rev, at)
	})
}

func TestReadRefusals(t *testing.T) {
	long := strings.Repeat("k", kv.MaxKey+1)
	keys := `["k"` + strings.Repeat(`,"k"`, protocol.MaxGet) + `]`
	get := func(r *protocol.Request) (any, error) { return r.KVGet() }
	many := func(r *protocol.Request) (any, error) { return r.KVMGet() }
	list := func(r *protocol.Request) (any, error) { return protocol.Read[protocol.KVListQuery](r) }
	names := func(r *protocol.Request) (any, error) { return protocol.Read[protocol.KVNamesQuery](r) }
	history := func(r *protocol.Request) (any, error) { return protocol.Read[protocol.KVHistoryQuery](r) }
	lease := func(r *protocol.Request) (any, error) { return r.KVLeaseID() }
	lock := func(r *protocol.Request) (any, error) { return r.KVLock() }
	unlock := func(r *protocol.Request) (any, error) { return r.KVUnlock() }
	watch := func(r *protocol.Request) (any, error) { return r.KVWatch() }
	unwatch := func(r *protocol.Request) (any, error) { return r.KVUnwatch() }
	for _, c := range []struct {
		name, body string
		read       func(*protocol.Request) (any, error)
		code       codes.Code
		text       string
	}{
		{"get, no namespace", `{"key":"k"}`, get, codes.BadKey, "namespace is empty"},
		{"get, no key", `{"ns":"a"}`, get, codes.BadKey, "key is empty"},
		{"get, long key", `{"ns":"a","key":"` + long + `"}`, get, codes.NameTooLong, "limit is 1024"},
		{"get, control character", `{"ns":"a","key":"\u0000"}`, get, codes.BadKey, "control"},
		{"get, control character beyond ASCII", `{"ns":"a","key":"\u0085"}`, get, codes.BadKey, "control"},
		{"get, not UTF-8", "{\"ns\":\"a\",\"key\":\"\xff\"}", get, codes.BadKey, "UTF-8"},
		{"get, revision", `{"ns":"a","key":"k","rev":-1}`, get, codes.BadRequest, `"rev"`},
		{"get, wrong kind", `{"ns":["a"],"key":"k"}`, get, codes.BadRequest, `"ns"`},
		{"get, octets", `{"ns":"a","key":"k","raw":1}x`, get, codes.BadJSON, "follow the JSON"},
		{"mget, no namespace", `{"keys":[]}`, many, codes.BadKey, "namespace"},
		{"mget, an empty key", `{"ns":"a","keys":["k",""]}`, many, codes.BadKey, "key is empty"},
		{"mget, not strings", `{"ns":"a","keys":[1]}`, many, codes.BadRequest, "array of strings"},
		{"mget, no array", `{"ns":"a","keys":"k"}`, many, codes.BadRequest, "array"},
		{"mget, too many", `{"ns":"a","keys":` + keys + `}`, many, codes.TooManyOps, "limit of 1000"},
		{"list, no namespace", `{}`, list, codes.BadKey, "namespace"},
		{"list, long prefix", `{"ns":"a","prefix":"` + long + `"}`, list, codes.NameTooLong, "prefix"},
		{"list, long after", `{"ns":"a","after":"` + long + `"}`, list, codes.NameTooLong, "after"},
		{"list, limit", `{"ns":"a","limit":-1}`, list, codes.BadRequest, `"limit"`},
		{"names, limit", `{"limit":"many"}`, names, codes.BadRequest, `"limit"`},
		{"history, no key", `{"ns":"a"}`, history, codes.BadKey, "key"},
		{"history, before", `{"ns":"a","key":"k","before":-1}`, history, codes.BadRequest, `"before"`},
		{"alive", `{}`, lease, codes.BadRequest, "lease is missing"},
		{"lock, no lease", `{"ns":"a","key":"k"}`, lock, codes.BadRequest, "lease is missing"},
		{"lock, no key", `{"ns":"a","lease":1}`, lock, codes.BadKey, "key"},
		{"lock, value", `{"ns":"a","key":"k","lease":1,"type":"int","value":"x"}`, lock, codes.BadValue, "int"},
		{"unlock, nothing", `{"ns":"a","key":"k"}`, unlock, codes.BadRequest, "either fence"},
		{"unlock, both", `{"ns":"a","key":"k","fence":1,"lease":1}`, unlock, codes.BadRequest, "either fence"},
		{"unlock, no key", `{"ns":"a","fence":1}`, unlock, codes.BadKey, "key"},
		{"watch, key and prefix", `{"ns":"a","key":"k","prefix":"p"}`, watch, codes.BadRequest, "exclude"},
		{"watch, from and state", `{"ns":"a","from":1,"state":1}`, watch, codes.BadRequest, "exclude"},
		{"watch, key of no namespace", `{"key":"k"}`, watch, codes.BadKey, "namespace"},
		{"watch, prefix of no namespace", `{"prefix":"k"}`, watch, codes.BadKey, "namespace"},
		{"watch, an empty key", `{"ns":"a","key":""}`, watch, codes.BadKey, "key is empty"},
		{"watch, from", `{"ns":"a","from":-1}`, watch, codes.BadRequest, `"from"`},
		{"unwatch, nothing", `{}`, unwatch, codes.BadRequest, `"watch"`},
		{"unwatch, too great", `{"watch":4294967296}`, unwatch, codes.BadRequest, `"watch"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.read(parsed(t, []byte(c.body)))
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.code, codes.Of(err), "%v", err)
		})
	}
}

// Blanks, and a NUL and what is behind it, may follow the JSON of any request.
func TestWhatMayFollow(t *testing.T) {
	for _, tail := range []string{"", " \t\r\n", "\x00", " \x00{garbage"} {
		_, err := parsed(t, []byte(`{"ns":"a","key":"k"}`+tail)).KVGet()
		require.NoError(t, err, "%q", tail)
	}
}

func TestInt64TakesText(t *testing.T) {
	r := parsed(t, []byte(`{"a":9007199254740993,"b":"-9223372036854775808","c":"1.0","d":1e3,"e":true,"f":"","g":"007"}`))
	for name, want := range map[string]int64{"a": 9007199254740993, "b": -9223372036854775808} {
		m, _ := r.Member(name)
		got, ok := m.Int64()
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"c", "d", "e", "f", "g", "h"} {
		m, _ := r.Member(name)
		_, ok := m.Int64()
		require.False(t, ok, name)
	}
}

func TestGetManyRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		q := protocol.KVMGetQuery{NS: drawName(t, "ns"), Keys: some(t, "keys", func(t *rapid.T) string { return drawName(t, "key") }), MinRev: drawRevision(t, "min"), Raw: raw, Reveal: !raw}
		got, err := parsed(t, protocol.AppendMessage(nil, &q)).KVMGet()
		require.NoError(t, err)
		require.Equal(t, q, got)

		var want []*kv.Entry
		for _, key := range q.Keys {
			want = append(want, maybeEntry(t, q.NS, key))
		}
		rev := drawRevision(t, "rev")
		entries, at, err := protocol.ParseKVGotMany(protocol.AppendKVGotMany(nil, rev, want, raw), q)
		require.NoError(t, err)
		require.Equal(t, want, entries)
		require.Equal(t, rev, at)
	})
}

func TestListRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		q := protocol.KVListQuery{Raw: raw, Reveal: !raw, KeysOnly: rapid.Bool().Draw(t, "keys only"), MinRev: kv.Revision(rapid.Int64Min(0).Draw(t, "min"))}
		q.List = kv.List{
			NS: drawName(t, "ns"), Prefix: rapid.SampledFrom([]string{"", "p", "\xe2"}).Draw(t, "prefix"), After: rapid.SampledFrom([]string{"", "p1"}).Draw(t, "after"),
			Limit: rapid.IntRange(0, 1<<40).Draw(t, "limit"), CountOnly: rapid.Bool().Draw(t, "count only"),
		}
		got, err := protocol.Read[protocol.KVListQuery](parsed(t, protocol.AppendMessage(nil, &q)))
		require.NoError(t, err)
		require.Equal(t, q, got)

		want := kv.Page{Revision: drawRevision(t, "rev"), Count: rapid.Int64Min(0).Draw(t, "count"), More: rapid.Bool().Draw(t, "more")}
		if !q.CountOnly {
			want.Entries = some(t, "entries", func(t *rapid.T) *kv.Entry { return drawEntry(t, q.NS, drawName(t, "key")) })
		}
		body := protocol.AppendKVPage(nil, q, want)
		if q.KeysOnly {
			for _, e := range want.Entries {
				*e = kv.Entry{NS: e.NS, Key: e.Key}
			}
		}
		page, err := protocol.ParseKVPage(body, q.NS)
		require.NoError(t, err)
		require.Equal(t, want, page)
	})
}

func TestNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requireAsked(t, protocol.KVNamesQuery{After: rapid.SampledFrom([]string{"", "a\"b"}).Draw(t, "after"), Limit: rapid.IntRange(1, protocol.MaxNames).Draw(t, "limit")})
		want := some(t, "names", func(t *rapid.T) kv.Namespace {
			return kv.Namespace{Name: drawName(t, "name"), Keys: rapid.Int64().Draw(t, "keys"), Bytes: rapid.Int64().Draw(t, "bytes")}
		})
		requireTold(t, protocol.KVNamespaces{Revision: 1, Namespaces: want, More: len(want) > 1})
	})
	for body, want := range map[string]int{`{}`: protocol.MaxNames, `{"limit":0}`: protocol.MaxNames, `{"limit":1000000}`: protocol.MaxNames, `{"limit":"7"}`: 7} {
		q, err := protocol.Read[protocol.KVNamesQuery](parsed(t, []byte(body)))
		require.NoError(t, err)
		require.Equal(t, want, q.Limit, body)
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		q := protocol.KVHistoryQuery{NS: drawName(t, "ns"), Key: drawName(t, "key"), Before: kv.Revision(rapid.Int64Min(0).Draw(t, "before")), Limit: rapid.IntRange(0, 99).Draw(t, "limit"), Raw: raw, Reveal: !raw}
		requireAsked(t, q)
		want := kv.Versions{More: rapid.Bool().Draw(t, "more"), Floor: kv.Revision(rapid.Int64Min(0).Draw(t, "floor"))}
		want.Entries = some(t, "versions", func(t *rapid.T) *kv.Entry {
			if rapid.Bool().Draw(t, "deleted") {
				return drawTombstone(t, q.NS, q.Key)
			}
			return drawEntry(t, q.NS, q.Key)
		})
		v, err := protocol.ParseKVVersions(protocol.AppendKVVersions(nil, 1, want, raw), q.NS, q.Key)
		require.NoError(t, err)
		require.Equal(t, want, v)
	})
}

// The numbers are the engine's, all of them.
func TestStatsRoundTrip(t *testing.T) {
	stats := kv.Stats{
		Revision: 1, Namespaces: 2, Keys: 3, Bytes: 4, Leases: 5, Tokens: 6, LogFloor: 7, HistoryFloor: 8, DiskBytes: 9, FreeBytes: 10,
		Queue: 11, Commits: 12, Groups: 13, Failed: 14, Busy: 15, Refused: 16, Replayed: 17, Expired: 18, Views: 19, ViewsCut: 20,
	}
	want := kv.Stats(stats)
	got, err := protocol.ParseKVStats(protocol.AppendKVStats(nil, want))
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = protocol.ParseKVStats([]byte(`{"code":503,"desc":""}`))
	require.Error(t, err)
}

func TestLeaseRoundTrip(t *testing.T) {
	id, err := parsed(t, protocol.AppendKVLeaseID(nil, 77)).KVLeaseID()
	require.NoError(t, err)
	require.EqualValues(t, 77, id)
	want := kv.Lease{ID: 77, TTL: 10 * time.Second, Left: 7 * time.Second, Keys: 3}
	got, err := protocol.ParseReply[kv.Lease](protocol.AppendReply(nil, &want))
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = protocol.ParseReply[kv.Lease](protocol.AppendKVAlive(nil, want))
	require.NoError(t, err)
	require.Equal(t, kv.Lease{ID: 77, TTL: 10 * time.Second}, got)
	_, err = protocol.ParseReply[kv.Lease]([]byte(`{"code":0}`))
	require.Error(t, err)
}

func TestLockRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		q := protocol.KVLockRequest{NS: drawName(t, "ns"), Key: drawName(t, "key"), Lease: kv.LeaseID(rapid.Int64().Draw(t, "lease")), Value: drawValue(t), Wait: rapid.Bool().Draw(t, "wait")}
		q.Raw = raw && q.Value.Type == kv.Bytes
		got, err := parsed(t, protocol.AppendKVLock(nil, q)).KVLock()
		require.NoError(t, err)
		require.Equal(t, q, got)

		want := protocol.KVLocked{Granted: rapid.Bool().Draw(t, "granted"), Revision: drawRevision(t, "rev")}
		if want.Granted {
			want.Fence = drawRevision(t, "fence")
		}
		l, holder, err := protocol.ParseKVLocked(protocol.AppendKVLocked(nil, want), q.NS, q.Key)
		require.NoError(t, err)
		require.Nil(t, holder)
		require.Equal(t, want, l)

		held := maybeEntry(t, q.NS, q.Key)
		_, holder, err = protocol.ParseKVLocked(protocol.AppendKVHeld(nil, "held", want.Revision, held, raw), q.NS, q.Key)
		var refused *protocol.RefusedError
		require.ErrorAs(t, err, &refused)
		require.EqualValues(t, codes.Locked, refused.Result.Code)
		require.Equal(t, held, holder)

		u := protocol.KVUnlockRequest{NS: q.NS, Key: q.Key}
		if u.Fence = drawRevision(t, "token"); want.Granted {
			u.Fence, u.Lease = 0, kv.LeaseID(drawRevision(t, "waiting"))
		}
		unlock, err := parsed(t, protocol.AppendMessage(nil, &u)).KVUnlock()
		require.NoError(t, err)
		require.Equal(t, u, unlock)

		g := protocol.KVGranted{NS: q.NS, Key: q.Key, Lease: q.Lease, Fence: drawRevision(t, "fence")}
		if rapid.Bool().Draw(t, "failed") {
			g.Fence, g.Code, g.Desc = 0, codes.LeaseGone, text(t, "desc")
		}
		granted, err := protocol.ParseKVGranted(protocol.AppendMessage(nil, &g))
		require.NoError(t, err)
		require.Equal(t, g, granted)
	})
	q, err := parsed(t, []byte(`{"ns":"a","key":"k","lease":"7"}`)).KVLock()
	require.NoError(t, err)
	require.Equal(t, protocol.KVLockRequest{NS: "a", Key: "k", Lease: 7, Value: kv.StringValue("")}, q)
	rev, err := protocol.ParseKVDone(protocol.AppendKVDone(nil, 9))
	require.NoError(t, err)
	require.EqualValues(t, 9, rev)
}

// Replies that lack what they must have are errors, and none of them a refusal.
func TestBrokenReplies(t *testing.T) {
	entry := `"mod":1,"version":1,"updated":1`
	for _, body := range []string{
		``, `{`, `[]`, `{}`, `{"code":"0"}`, `{"code":0}`, `{"code":0,"rev":1}x`, `{"code":0,"rev":1,"raw":1,` + entry + `}`,
		`{"code":0,"rev":1,"version":1}`, `{"code":0,"rev":1,"mod":1}`, `{"code":0,"rev":1,"type":"odd","value":"",` + entry + `}`,
		`{"code":0,"rev":1,"type":"int","value":{},` + entry + `}`, `{"code":404,"desc":"no revision"}`,
	} {
		_, _, err := protocol.ParseKVGot([]byte(body), "a", "k")
		require.Error(t, err, body)
	}
	for _, entries := range []string{``, `,"entries":{}`, `,"entries":[]`, `,"entries":[null,null]`, `,"entries":[{}]`, `,"entries":[{"key":1,` + entry + `}]`} {
		_, _, err := protocol.ParseKVGotMany([]byte(`{"code":0,"rev":1`+entries+`}`), protocol.KVMGetQuery{NS: "a", Keys: []string{"k"}})
		require.Error(t, err, entries)
	}
	for _, member := range []string{`"entries":[null]`, `"keys":{}`, `"count":"x"`} {
		_, err := protocol.ParseKVPage([]byte(`{"code":0,"rev":1,`+member+`}`), "a")
		require.Error(t, err, member)
	}
	_, err := protocol.ParseKVVersions([]byte(`{"code":0,"rev":1,"versions":[1]}`), "a", "k")
	require.Error(t, err)
	_, _, err = protocol.ParseKVLocked([]byte(`{"code":0,"rev":1,"granted":1}`), "a", "k")
	require.Error(t, err)
	_, err = protocol.ParseKVGranted([]byte(`{"ns":"a","key":"k","lease":1}`))
	require.Error(t, err)
}

// FuzzKVRead reads any bytes as each of the requests that change nothing by
// themselves; what is taken is sent again and comes out the same.
func FuzzKVRead(f *testing.F) {
	for _, s := range []string{
		string(getBody), `{"ns":"a","key":"k","rev":"7","min_rev":9,"raw":1}`, `{"ns":"a","keys":["k","l"]}`, `{"ns":"a","prefix":"p","after":"p1","limit":3,"keys_only":1}`,
		`{"ns":"a","key":"k","lease":7,"raw":2,"wait":1}me`, `{"ns":"a","key":"k","fence":7}`, `{"ns":"a","prefix":"p","state":1,"prev":true}`, `{"watch":7}`, "{}\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		if r.ParseTailed(body) != nil {
			return
		}
		if q, err := r.KVGet(); err == nil {
			again, err := parsed(t, protocol.AppendKVRead(nil, q)).KVGet()
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
		if q, err := r.KVMGet(); err == nil {
			again, err := parsed(t, protocol.AppendMessage(nil, &q)).KVMGet()
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
		if q, err := protocol.Read[protocol.KVListQuery](&r); err == nil {
			requireAsked(t, q)
		}
		if q, err := protocol.Read[protocol.KVHistoryQuery](&r); err == nil {
			requireAsked(t, q)
		}
		if q, err := protocol.Read[protocol.KVNamesQuery](&r); err == nil {
			requireAsked(t, q)
		}
		if q, err := r.KVLock(); err == nil {
			again, err := parsed(t, protocol.AppendKVLock(nil, q)).KVLock()
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
		if q, err := r.KVWatch(); err == nil {
			again, err := parsed(t, protocol.AppendKVWatch(nil, q)).KVWatch()
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
		_, _ = r.KVUnlock()
		_, _ = r.KVUnwatch()
		_, _ = r.KVLeaseID()
	})
}

// FuzzKVReply reads any bytes as each of the replies; an entry that is taken makes
// a reply that is taken too.
func FuzzKVReply(f *testing.F) {
	for _, s := range []string{
		string(protocol.AppendKVGot(nil, 17, found, false)), string(protocol.AppendKVGot(nil, 17, nil, false)),
		`{"code":0,"rev":9,"raw":3,"create":1,"mod":2,"version":1,"updated":3}abc`, `{"code":0,"rev":9,"entries":[{"key":"k","deleted":1,"mod":2},null],"more":1}`,
		`{"code":0,"rev":9,"keys":["a"],"count":1}`, `{"code":0,"rev":9,"versions":[{"deleted":1,"mod":3}],"floor":2}`, `{"code":0,"rev":1,"namespaces":[{"ns":"a","keys":1,"bytes":2}]}`,
		`{"code":1023,"desc":"","rev":9,"current":null}`, `{"code":0,"lease":7,"ttl":1000,"left":3,"keys":2}`, `{"code":0,"rev":9,"watch":7}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if e, rev, err := protocol.ParseKVGot(body, "a", "k"); err == nil {
			for _, raw := range []bool{false, true} {
				again, at, err := protocol.ParseKVGot(protocol.AppendKVGot(nil, rev, e, raw), "a", "k")
				require.NoError(t, err)
				require.Equal(t, rev, at)
				requireSameEntry(t, e, again)
			}
		}
		_, _, _ = protocol.ParseKVGotMany(body, protocol.KVMGetQuery{NS: "a", Keys: []string{"k"}})
		if page, err := protocol.ParseKVPage(body, "a"); err == nil {
			for _, e := range page.Entries {
				require.NotNil(t, e)
			}
		}
		_, _ = protocol.ParseKVVersions(body, "a", "k")
		_, _ = protocol.ParseReply[protocol.KVNamespaces](body)
		_, _, _ = protocol.ParseKVLocked(body, "a", "k")
		_, _ = protocol.ParseKVGranted(body)
		_, _ = protocol.ParseReply[kv.Lease](body)
		_, _ = protocol.ParseKVStats(body)
		_, _ = protocol.ParseKVDone(body)
		_, _, _ = protocol.ParseKVWatching(body)
	})
}

// requireSameEntry overlooks namespace and key, which some replies leave out.
func requireSameEntry(t *testing.T, want, got *kv.Entry) {
	if want == nil || got == nil {
		require.Equal(t, want, got)
		return
	}
	a, b := *want, *got
	a.NS, a.Key, b.NS, b.Key = "", "", "", ""
	require.True(t, a.Value.Equal(b.Value))
	a.Value, b.Value = kv.Value{}, kv.Value{}
	require.Equal(t, a, b)
}

// What is read the short way is what is read the long way.
func TestPlainKVGetAgrees(t *testing.T) {
	long := strings.Repeat("n", kv.MaxKey)
	for body, plain := range map[string]bool{
		`{"ns":"a","key":"k"}`:                   true,
		`{"ns":"a/b c.d#","key":"` + long + `"}`: true,
		`{"ns":"a","key":"` + long + `x"}`:       false,
		`{"ns":"` + long + `x","key":"k"}`:       false,
		`{"ns":"","key":"k"}`:                    false,
		`{"ns":"a","key":""}`:                    false,
		`{"ns":"a","key":"k\u0041"}`:             false,
		`{"ns":"a","key":"\""}`:                  false,
		"{\"ns\":\"a\",\"key\":\"k\x01\"}":       false,
		"{\"ns\":\"a\",\"key\":\"k\x7f\"}":       false,
		"{\"ns\":\"a\",\"key\":\"é\"}":           false,
		`{"ns":"a","key":"k","raw":1}`:           false,
		`{"ns":"a","key":"k"} `:                  false,
		`{"ns":"a","key":"k"`:                    false,
		`{"ns":"a","key":"k`:                     false,
		`{"ns":"a","key":`:                       false,
		`{"key":"k","ns":"a"}`:                   false,
		`{}`:                                     false,
		``:                                       false,
	} {
		q, ok := protocol.PlainKVGet([]byte(body))
		require.Equal(t, plain, ok, body)
		if ok {
			want, err := parsed(t, []byte(body)).KVGet()
			require.NoError(t, err)
			require.Equal(t, want, q)
		}
	}
}
