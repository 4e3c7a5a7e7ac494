package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/integration/dbtest"
	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/protocol"
)

// odd is the binary, landing in a database, and three ways to talk to it.
type odd struct {
	t    *testing.T
	p    *Process
	d    *landing.Database
	peer *servertest.Peer
	http second
	cli  *cli
}

// oddField is a field that someone might think of.
type oddField struct {
	owner       field.Owner
	name, value string
}

// Fields of any sort, by the protocol, HTTP and the command line, are the same in the store and
// in each database; and what only the database has is read as well.
func TestH6H7H36ToH38FieldsOfAnySortOnEachDatabase(t *testing.T) {
	for name, dsn := range map[string]string{
		"MariaDB": dbtest.MariaDB(t).Database(t), "PostgreSQL": dbtest.PostgreSQL(t).Database(t), "SQLite": "sqlite:" + filepath.Join(t.TempDir(), "players.db"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := filepath.Join(t.TempDir(), "conf")
			require.NoError(t, os.Mkdir(conf, 0o755))
			const set = `{"homo.dirty.landing.delayTime":20,"homo.dirty.landing.batchNum":"300","homo.dirty.tableNum":3,"homo.dirty.table.prefix":"mine","homo.dirty.lock.error.suffix":"Refused"}`
			require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(set), 0o644))
			d, err := landing.OpenDatabase(dsn)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			o := &odd{t: t, p: StartProcess(t, conf, "--landing", dsn), d: d}
			o.connect()
			fields := oddFields()
			for i, f := range fields {
				o.write(i, f)
			}
			for i, f := range fields {
				o.reads(i+1, f, f.value)
			}
			o.numbers()
			o.marks()
			o.large()
			o.landed()
			for _, f := range fields {
				row := o.row(f.owner, f.name)
				require.Equal(t, f.value, string(row.Value), "%q", f)
				require.False(t, row.Removed)
			}
			o.p.Kill()
			o.p = StartProcess(t, conf, "--landing", dsn, "--landing-moved") // its data directory is lost
			o.connect()
			for i, f := range fields {
				o.reads(i+2, f, f.value)
			}
			o.cold()
		})
	}
}

func (o *odd) connect() {
	o.peer, o.http, o.cli = o.p.Peer(), secondClient(o.t, o.p), newCLI(o.t, o.p)
	o.cli.verb = "storage"
}

func oddFields() (list []oddField) {
	names := []string{"a", "A", "a ", " a", "á", "a\u0301", ":", "a:b", "b", "%", "%41", "&", "'", "\"", "`", "\\", "{}", "😀", "a\nb", "\u0085", "_", "=", ",", "-", "--", "?", "#", "/x", strings.Repeat("é", 50)}
	values := []string{"", "\x00", "\xff\xfe", ":delFlag", "NULL", "é😀\n", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "007", "-0", "1e3", " 1", "' OR 1=1 --", strings.Repeat("\x00'\\", 30_000)}
	for i, name := range names {
		value := values[i%len(values)]
		list = append(list,
			oddField{field.Owner{App: "1", Region: "1", Logic: "odd", ID: "42"}, name, value},
			oddField{field.Owner{App: "1", Region: "1", Logic: name, ID: names[(i+1)%len(names)]}, "k", name})
		if len(name) < 9 {
			list = append(list, oddField{field.Owner{App: name, Region: "r", Logic: "l", ID: "o"}, "k", "app " + name}, oddField{field.Owner{App: "r", Region: name, Logic: "l", ID: "o"}, "k", "region " + name})
		}
	}
	long := strings.Repeat("é", 60)
	return append(list, oddField{field.Owner{App: "1", Region: "1", Logic: long, ID: long[:100]}, strings.Repeat("k", 33), "255 bytes"})
}

// withOwner is the owner's members, and those given, as JSON.
func withOwner(o field.Owner, members map[string]any) string {
	all := map[string]any{"appId": o.App, "regionId": o.Region, "logicType": o.Logic, "ownerId": o.ID}
	for name, value := range members {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (o *odd) path(owner field.Owner) string {
	path := "storage"
	for _, part := range []string{owner.App, owner.Region, owner.Logic, owner.ID} {
		path += "/" + strings.ReplaceAll(url.PathEscape(part), ".", "%2E")
	}
	return path
}

func values(name, value string) map[string]any {
	if utf8.ValidString(value) {
		return map[string]any{"fields": map[string]string{name: value}}
	}
	return map[string]any{"bytes": map[string][]byte{name: []byte(value)}}
}

// arguments are those of a verb with a flag.
func arguments(verb, flag string, owner field.Owner, arg string) []string {
	return []string{verb, flag, "--app", owner.App, "--region", owner.Region, "--", owner.Logic, owner.ID, arg}
}

// program reports whether the command line has to do it: seldom, because it is a process each.
func program(i int, text string) bool {
	return i%7 == 0 && !strings.Contains(text, "\x00") && len(text) < 10_000
}

func (o *odd) write(i int, f oddField) {
	switch {
	case program(i, f.value+f.name) && !strings.Contains(f.name, "="):
		o.cli.ok(arguments("update", "--base64", f.owner, f.name+"="+base64.StdEncoding.EncodeToString([]byte(f.value)))...)
	case i%2 == 0:
		kvExpect(o.t, o.peer, protocol.StUpdate, withOwner(f.owner, values(f.name, f.value)), `{"code":0}`)
	default:
		body, err := json.Marshal(values(f.name, f.value))
		require.NoError(o.t, err)
		o.http.ask(http.MethodPatch, o.path(f.owner), nil, string(body))
	}
}

func (o *odd) reads(i int, f oddField, want string) {
	var reply struct {
		Fields map[string]string
		Bytes  map[string][]byte
	}
	switch {
	case program(i, f.name):
		require.Equal(o.t, want, o.raw(f.owner, f.name), "%q", f)
		return
	case i%2 == 0:
		require.NoError(o.t, json.Unmarshal([]byte(o.peer.Call(protocol.StGet, withOwner(f.owner, map[string]any{"names": []string{f.name, "none"}}))), &reply))
	default:
		text, err := json.Marshal(o.http.ask(http.MethodGet, o.path(f.owner), url.Values{"name": {f.name, "none"}}, ""))
		require.NoError(o.t, err)
		require.NoError(o.t, json.Unmarshal(text, &reply))
	}
	got := map[string]string{}
	for name, value := range reply.Fields {
		got[name] = value
	}
	for name, value := range reply.Bytes {
		require.False(o.t, utf8.Valid(value) && len(value) <= 64<<10, "%q", f)
		got[name] = string(value)
	}
	require.Equal(o.t, map[string]string{f.name: want}, got, "%q", f)
}

func (o *odd) raw(owner field.Owner, name string) string {
	code, out, stderr := o.cli.run("", arguments("get", "-oraw", owner, name)...)
	require.Zero(o.t, code, "%q %q: %s", owner, name, stderr)
	return out
}

// row is a field in the database.
func (o *odd) row(owner field.Owner, name string) field.Row {
	rows, err := o.d.Fields(o.t.Context(), owner, []string{name})
	require.NoError(o.t, err)
	require.Len(o.t, rows, 1, "%q %q", owner, name)
	return rows[0]
}

func oddOwner(id string) field.Owner {
	return field.Owner{App: "1", Region: "1", Logic: "owner", ID: id}
}

const greatest, least = "9223372036854775807", "-9223372036854775808"

// numbers are increments near the ends of 64 bits.
func (o *odd) numbers() {
	n := oddOwner("numbers")
	say := func(cmd protocol.Command, members map[string]any, want string) {
		kvExpect(o.t, o.peer, cmd, withOwner(n, members), want)
	}
	say(protocol.StUpdate, map[string]any{"fields": map[string]string{"top": "9223372036854775806", "text": "9223372036854775808", "zeros": "01", "minus": "-0", "gone": "10"}}, `{"code":0}`)
	for deltas, want := range map[string]string{
		`{"text":1}`: `{"code":1016}`, `{"zeros":1}`: `{"code":1016}`, `{"minus":1}`: `{"code":1016}`, `{"new":1,"text":0}`: `{"code":1016}`,
		`{"top":2}`: `{"code":1014}`, `{"new":9223372036854775808}`: `{"code":400}`, `{"new":1.5}`: `{"code":400}`, `{"new":1e3}`: `{"code":400}`, `{"new":null}`: `{"code":400}`, `{"new":"x"}`: `{"code":400}`,
		`{"new":1,"new":1}`: `{"code":400}`,
	} {
		say(protocol.StIncr, map[string]any{"deltas": json.RawMessage(deltas)}, want)
	}
	say(protocol.StGet, map[string]any{"names": []string{"new"}}, `{"code":0,"fields":{}}`)
	say(protocol.StIncr, map[string]any{"deltas": map[string]any{"top": 1, "bottom": json.RawMessage(least)}}, `{"code":0,"values":{"top":`+greatest+`,"bottom":`+least+`}}`)
	say(protocol.StIncr, map[string]any{"deltas": map[string]any{"bottom": -1}}, `{"code":1014}`)
	say(protocol.StIncr, map[string]any{"deltas": map[string]any{"bottom": json.RawMessage(greatest)}}, `{"code":0,"values":{"bottom":-1}}`)
	say(protocol.StIncr, map[string]any{"deltas": map[string]any{"top": json.RawMessage(least)}}, `{"code":0,"values":{"top":-1}}`)
	say(protocol.StIncr, map[string]any{"deltas": map[string]any{"top": json.RawMessage(greatest), "zero": 0}}, `{"code":0,"values":{"top":9223372036854775806,"zero":0}}`)
	say(protocol.StRemove, map[string]any{"names": []string{"gone"}}, `{"code":0}`)
	say(protocol.StIncr, map[string]any{"deltas": map[string]any{"gone": 3}}, `{"code":0,"values":{"gone":3}}`)
	require.Equal(o.t, "top="+greatest, o.cli.ok("incr", "owner", "numbers", "top"))
}

// marks are conditions, tokens and what was removed.
func (o *odd) marks() {
	n := oddOwner("marks")
	say := func(cmd protocol.Command, members map[string]any, want string) {
		kvExpect(o.t, o.peer, cmd, withOwner(n, members), want)
	}
	type all = map[string]any
	a := all{"a": "1"}
	say(protocol.StUpdate, all{"fields": a, "expect": all{"a": 0}, "token": "t"}, `{"code":0,"replayed":"absent"}`)
	say(protocol.StUpdate, all{"fields": a, "expect": all{"a": 0}, "token": "t"}, `{"code":0,"replayed":1}`)
	say(protocol.StUpdate, all{"fields": a, "expect": all{"a": 0}}, `{"code":412}`)
	say(protocol.StUpdate, all{"fields": a, "token": "t"}, `{"code":1019}`)
	say(protocol.StRemove, all{"names": []string{"a"}, "token": "t"}, `{"code":1019}`)
	say(protocol.StRestore, all{"names": []string{"a"}}, `{"code":0,"fields":{}}`)
	say(protocol.StRemove, all{"names": []string{"a", "a", "none"}}, `{"code":0}`)
	say(protocol.StIncr, all{"deltas": all{"b": 1}, "expect": all{"a": 0, "b": 0}}, `{"code":0,"values":{"b":1}}`)
	say(protocol.StRestore, all{"names": []string{"a"}, "expect": all{"a": 0}}, `{"code":0,"fields":{"a":"1"}}`)
	say(protocol.StRemove, all{"names": []string{"a"}}, `{"code":0}`)
	say(protocol.StUpdate, all{"fields": all{"x": "1"}, "bytes": all{"x": "AA=="}}, `{"code":400}`)
	for _, bad := range []string{"", "a\x00b", strings.Repeat("x", 101)} {
		say(protocol.StUpdate, all{"fields": all{bad: "1"}}, `{}`)
		require.NotContains(o.t, o.peer.Call(protocol.StUpdate, withOwner(n, all{"fields": all{bad: "1"}})), `"code":0`)
	}
	for _, path := range []string{"storage/1/1/owner/%FF?names=a", "storage/1/1/owner/%00?names=a", "storage/1/1/owner/%FF", "storage/1/1?logicType=%FF", "storage/1/1?after=%FF", "storage/1/1?count&logicType=a%00"} {
		reply, err := http.Get("http://" + o.p.HTTP + "/v1/" + path)
		require.NoError(o.t, err)
		require.NoError(o.t, reply.Body.Close())
		require.Equal(o.t, http.StatusBadRequest, reply.StatusCode, path)
	}
}

// large are values of a mebibyte, and an owner of more fields than a write or a page has.
func (o *odd) large() {
	c, err := client.Dial(o.t.Context(), client.Config{Addrs: []string{o.p.Addr}, Name: "large"})
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, c.Close()) }()
	n := c.Storage().Owner("owner", "large")
	whole := strings.Repeat("\xff", kv.MaxValue)
	_, err = n.Update(o.t.Context(), map[string][]byte{"whole": []byte(whole)})
	require.NoError(o.t, err)
	_, err = n.Update(o.t.Context(), map[string][]byte{"whole": []byte(whole + "x")})
	require.ErrorIs(o.t, err, codes.TooLarge)
	_, err = n.Remove(o.t.Context(), []string{"whole"})
	require.NoError(o.t, err)
	for i := 0; i < oddMany; {
		some := map[string][]byte{}
		for ; len(some) < field.MaxFields && i < oddMany; i++ {
			some[fmt.Sprint("f", i)] = fmt.Append(nil, i)
		}
		_, err := n.Update(o.t.Context(), some)
		require.NoError(o.t, err)
	}
	all, err := n.All(o.t.Context())
	require.NoError(o.t, err)
	require.Len(o.t, all, oddMany)
}

const oddMany = 5000

// landed waits until the status says that all is in the database, and nothing was refused.
func (o *odd) landed() {
	type table struct {
		List       string
		ErrorsList string `json:"errors_list"`
		Dirty      int64
		Errors     int64
		Landed     int64
		Last       int64
	}
	var status struct{ Tables []table }
	require.Eventually(o.t, func() bool {
		reply, err := http.Get("http://" + o.p.HTTP + "/v1/landing")
		if err != nil {
			return false
		}
		defer reply.Body.Close()
		status.Tables = nil
		if json.NewDecoder(reply.Body).Decode(&status) != nil {
			return false
		}
		return !slices.ContainsFunc(status.Tables, func(one table) bool { return one.Dirty > 0 })
	}, servertest.Patience, 20*time.Millisecond)
	require.Len(o.t, status.Tables, 3)
	for i, one := range status.Tables {
		require.Equal(o.t, fmt.Sprint("mine:", i), one.List)
		require.Equal(o.t, fmt.Sprint("mine:", i, "Refused"), one.ErrorsList)
		require.Zero(o.t, one.Errors)
		require.Positive(o.t, one.Landed)
		require.Greater(o.t, one.Last, time.Now().Add(-time.Hour).UnixMilli())
	}
	large := oddOwner("large")
	rows, err := o.d.All(o.t.Context(), large)
	require.NoError(o.t, err)
	require.Len(o.t, rows, oddMany+1)
	require.Equal(o.t, strings.Repeat("\xff", kv.MaxValue), string(o.row(large, "whole").Value))
	require.True(o.t, o.row(large, "whole").Removed)
	require.True(o.t, o.row(oddOwner("marks"), "a").Removed)
	require.Equal(o.t, "1", string(o.row(oddOwner("marks"), "a").Value))
	for name, value := range map[string]string{"top": greatest, "bottom": "-1", "gone": "3", "zeros": "01", "minus": "-0", "text": "9223372036854775808", "zero": "0"} {
		require.Equal(o.t, value, string(o.row(oddOwner("numbers"), name).Value), name)
	}
}

// cold is what a server makes of rows that only the database has.
func (o *odd) cold() {
	numbers, marks, large := oddOwner("numbers"), oddOwner("marks"), oddOwner("large")
	kvExpect(o.t, o.peer, protocol.StIncr, withOwner(numbers, map[string]any{"deltas": map[string]any{"top": 1}}), `{"code":1014}`)
	kvExpect(o.t, o.peer, protocol.StIncr, withOwner(numbers, map[string]any{"deltas": map[string]any{"zeros": 1}}), `{"code":1016}`)
	kvExpect(o.t, o.peer, protocol.StIncr, withOwner(numbers, map[string]any{"deltas": map[string]any{"bottom": 2, "new": 1}}), `{"code":0,"values":{"bottom":1,"new":1}}`)
	kvExpect(o.t, o.peer, protocol.StGet, withOwner(marks, map[string]any{"names": []string{"a"}}), `{"code":0,"fields":{}}`)
	kvExpect(o.t, o.peer, protocol.StUpdate, withOwner(marks, map[string]any{"fields": map[string]string{"b": "2"}, "expect": map[string]int{"b": 0}}), `{"code":412}`)
	kvExpect(o.t, o.peer, protocol.StRestore, withOwner(marks, map[string]any{"names": []string{"a"}}), `{"code":0,"fields":{"a":"1"}}`)
	var all struct{ Fields map[string]string }
	require.NoError(o.t, json.Unmarshal([]byte(o.cli.ok("all", "owner", "large", "-o", "json")), &all))
	require.Len(o.t, all.Fields, oddMany)
	require.Equal(o.t, "4999", all.Fields["f4999"])
	kvExpect(o.t, o.peer, protocol.StRestore, withOwner(large, map[string]any{"names": []string{"whole"}}), `{"code":0}`)
	require.Len(o.t, o.raw(large, "whole"), kv.MaxValue)
}
