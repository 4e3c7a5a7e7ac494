package http

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/player/field"
)

// startStorage is a gateway on fields that are none yet.
func startStorage(t testing.TB) (*kit, *fakeStorage) {
	t.Helper()
	fake := newFakeStorage()
	return start(t, func(_ *Config, stores *Stores) { stores.Storage = fake }), fake
}

// ownerPath is the path of an owner whose ids may be anything.
func ownerPath(ids ...string) string {
	path := storageRoot
	for _, id := range ids {
		path += "/" + url.PathEscape(id)
	}
	return path
}

func TestStorageRoutes(t *testing.T) {
	k, _ := startStorage(t)
	p := ownerPath("1", "1", "player", "7")
	k.exchange([]exchange{
		{"GET", p, "", "", 200, `{"fields":{},"revision":1}`, ""},
		{"GET", p + "?names=a", "", "", 200, `{"fields":{}}`, ""},
		{"PATCH", p, `{"fields":{"a":"1","b":"x"},"bytes":{"c":"/wA="}}`, "", 200, `{"revision":3,"versions":{"a":1,"b":2,"c":3}}`, ""},
		{"GET", p + "?names=a,c,none", "", "", 200, `{"fields":{"a":"1"},"bytes":{"c":"/wA="}}`, ""},
		{"GET", p + "?name=a&name=b", "", "", 200, `{"fields":{"a":"1","b":"x"}}`, ""},
		{"GET", p + "?versions=1&limit=2", "", "", 200, `{"fields":{"a":"1","b":"x"},"versions":{"a":1,"b":2},"more":true,"next":"b","revision":4}`, ""},
		{"GET", p + "?after=b&revision=4&limit=2", "", "", 200, `{"fields":{},"bytes":{"c":"/wA="},"revision":4}`, ""},
		{"GET", p + "?dirty", "", "", 200, `{"fields":{"a":"1","b":"x"},"bytes":{"c":"/wA="},"revision":4,"dirty":["a","b","c"]}`, ""},
		{"POST", p + "/incr", `{"deltas":{"a":5,"n":"-2"}}`, "", 200, `{"revision":5,"values":{"a":6,"n":-2},"versions":{"a":4,"n":5}}`, ""},
		{"PATCH", p, `{"fields":{"b":"y"},"expect":{"b":2},"prev":true}`, "", 200, `{"revision":6,"versions":{"b":6},"prev":{"fields":{"b":"x"},"versions":{"b":2}}}`, ""},
		{"PATCH", p, `{"fields":{"b":"z"},"expect":{"b":2}}`, "", 412, `conflict`, ""},
		{"POST", p + "/remove", `{"names":["b"],"token":"again"}`, "", 200, `{"revision":7,"replayed":true}`, ""},
		{"POST", p + "/restore", `{"names":["b"]}`, "", 200, `{"revision":8,"fields":{"b":"y"},"versions":{"b":8}}`, ""},
		{"GET", ownerPath("1", "1"), "", "", 200, `{"owners":[{"logicType":"player","ownerId":"7"}]}`, ""},
		{"GET", ownerPath("1", "1") + "?count", "", "", 200, `{"count":1}`, ""},
		{"GET", ownerPath("1", "1") + "?logicType=guild", "", "", 200, `{"owners":[]}`, ""},
		{"GET", storageRoot, "", "", 200, `{"regions":[{"appId":"1","regionId":"1"}]}`, ""},
	})
	a := k.do("PATCH", p, `{"fields":{"b":"z"},"expect":{"b":2,"none":9}}`)
	require.Equal(t, 412, a.status)
	var refusal struct {
		Error    string
		Versions map[string]int64
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &refusal))
	require.Equal(t, "conflict", refusal.Error)
	require.Equal(t, map[string]int64{"b": 8, "none": 0}, refusal.Versions, "the writer learns what there is")
}

// What is misspelt or of the wrong form changes nothing.
func TestStorageRefuses(t *testing.T) {
	k, fake := startStorage(t)
	p := ownerPath("1", "1", "player", "7")
	many := strings.Repeat(`"a",`, field.MaxFields) + `"a"`
	for _, c := range []struct{ method, path, body, error string }{
		{"PATCH", p, `{"field":{"a":"1"}}`, "bad_request"},
		{"PATCH", p, `{"fields":["a"]}`, "bad_request"},
		{"PATCH", p, `{"fields":{"a":1}}`, "bad_value"},
		{"PATCH", p, `{"fields":{"a":null}}`, "bad_value"},
		{"PATCH", p, `{"bytes":{"a":"?"}}`, "bad_value"},
		{"PATCH", p, `{"bytes":{"a":"/wB="}}`, "bad_value"},
		{"PATCH", p, `{"fields":{"a":"1"},"expect":{"a":1.5}}`, "bad_request"},
		{"PATCH", p, `{"fields":{"a":"1"},"prev":"yes"}`, "bad_request"},
		{"PATCH", p, `{"fields":{"a":"1"},"ownerId":"8"}`, "bad_request"},
		{"PATCH", p, `{}`, "bad_request"},
		{"PATCH", p, `[]`, "bad_json"},
		{"PATCH", p, `{"fields":{"a":"1"}`, "bad_json"},
		{"PATCH", p + "?x=1", `{"fields":{"a":"1"}}`, "bad_request"},
		{"PATCH", ownerPath("1", "1", "\x00", "7"), `{"fields":{"a":"1"}}`, "bad_key"},
		{"PATCH", ownerPath("1", "1", "player", "\xff"), `{"fields":{"a":"1"}}`, "bad_key"},
		{"PATCH", ownerPath("1", "1", strings.Repeat("x", 256), "7"), `{"fields":{"a":"1"}}`, "name_too_long"},
		{"POST", p + "/incr", `{"deltas":{"a":9223372036854775808}}`, "bad_request"},
		{"POST", p + "/incr", `{"fields":{"a":"1"}}`, "bad_request"},
		{"POST", p + "/remove", `{"names":"a"}`, "bad_request"},
		{"POST", p + "/remove", `{"names":[1]}`, "bad_request"},
		{"POST", p + "/remove", `{"names":[` + many + `]}`, "too_many_ops"},
		{"PUT", p, `{}`, "bad_method"},
		{"GET", p + "?names=a&limit=1", "", "bad_request"},
		{"GET", p + "?limit=-1", "", "bad_request"},
		{"GET", ownerPath("1", "1", "player"), "", "not_found"},
		{"GET", ownerPath("1", "1", "player", "7", "x"), "", "not_found"},
		{"GET", ownerPath("1"), "", "not_found"},
	} {
		a := k.do(c.method, c.path, c.body)
		require.Equal(t, c.error, errorName(t, a), "%s %s %.80s: %s", c.method, c.path, c.body, a.body)
	}
	require.Empty(t, fake.fields)
}

// Whatever an id is made of, it is one owner's and no one else's.
func TestStorageIDsMayBeAnything(t *testing.T) {
	k, fake := startStorage(t)
	ids := []string{"a/b", "a%2Fb", "a:b", "../../store", "a b", "a+b", "?x=1", "#", "&", "'", `"`, "{}", "玩家", "👾", "a\nb", "a%00", ";", "incr", "...", ".."}
	for i, id := range ids {
		path := strings.ReplaceAll(ownerPath(id, "1", id, id), "/..", "/%2E%2E")
		require.Equal(t, 200, k.do("PATCH", path, fmt.Sprintf(`{"fields":{%q:"%d"}}`, "f", i)).status, id)
		want := field.Ref{Owner: field.Owner{App: id, Region: "1", Logic: id, ID: id}, Name: "f"}
		require.Equal(t, fmt.Sprint(i), string(fake.fields[want].Value), id)
		require.JSONEq(t, fmt.Sprintf(`{"fields":{"f":"%d"}}`, i), k.get(path+"?names=f").body, id)
		var list struct {
			Owners []struct{ LogicType, OwnerID string }
		}
		region := strings.ReplaceAll(ownerPath(id, "1"), "/..", "/%2E%2E")
		require.NoError(t, json.Unmarshal([]byte(k.get(region).body), &list))
		require.Len(t, list.Owners, 1)
		require.Equal(t, id, list.Owners[0].OwnerID)
	}
	require.Len(t, fake.fields, len(ids))
}

func TestStorageFieldsMayBeCalledAnything(t *testing.T) {
	k, _ := startStorage(t)
	p := ownerPath("1", "1", "player", "7")
	names := []string{"a,b", "a b", "", "__proto__", "x:delFlag", "玩家", `q"`, "a&b=c"}
	for i, name := range names {
		body, err := json.Marshal(map[string]any{"fields": map[string]string{name: fmt.Sprint(i)}})
		require.NoError(t, err)
		require.Equal(t, 200, k.do("PATCH", p, string(body)).status)
		var got struct{ Fields map[string]string }
		require.NoError(t, json.Unmarshal([]byte(k.get(p+"?name="+url.QueryEscape(name)).body), &got))
		require.Equal(t, map[string]string{name: fmt.Sprint(i)}, got.Fields, name)
	}
}

// Pages and what is named are bounded, so no answer is.
func TestStorageAnswersAreBounded(t *testing.T) {
	k, fake := startStorage(t)
	o := field.Owner{App: "1", Region: "1", Logic: "player", ID: "7"}
	value := []byte(strings.Repeat("x", 1<<20))
	query := url.Values{}
	for i := range 9 {
		name := fmt.Sprint("f", i)
		fake.fields[field.Ref{Owner: o, Name: name}] = field.Field{Name: name, Value: value, Version: 1}
		query.Add("name", name)
	}
	p := ownerPath("1", "1", "player", "7")
	require.Equal(t, "too_large", errorName(t, k.get(p+"?"+query.Encode())))
	require.Equal(t, 200, k.get(p+"?names=f0,f1").status)
	query = url.Values{}
	for range field.MaxFields + 1 {
		query.Add("name", "f")
	}
	require.Equal(t, "too_many_ops", errorName(t, k.get(p+"?"+query.Encode())))
	require.Eventually(t, func() bool { return k.cfg.Memory.Bodies.Held() == 0 }, patience, patience/10_000, "handlers end after their answers are read")
}

// A write that waits for a database does not keep the gateway from stopping.
func TestShutdownDoesNotWaitForStorage(t *testing.T) {
	k, fake := startStorage(t)
	fake.hold, fake.holds = make(chan struct{}), make(chan struct{}, 1)
	defer close(fake.hold)
	answered := make(chan error, 1)
	r, err := http.NewRequest("PATCH", k.url+ownerPath("1", "1", "player", "7"), strings.NewReader(`{"fields":{"a":"1"}}`))
	require.NoError(t, err)
	go func() {
		reply, err := k.client.Do(r)
		if err == nil {
			err = reply.Body.Close()
		}
		answered <- err
	}()
	<-fake.holds
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no time for what runs
	require.Error(t, k.Shutdown(ctx))
	<-answered
	k.Gateway = nil
	k.models.Close()
	require.NoError(t, k.state.Close())
	require.NoError(t, k.config.Close())
}

func TestLandingRoutes(t *testing.T) {
	k, fake := startStorage(t)
	o := field.Owner{App: "1", Region: "1", Logic: "player", ID: "7/8"}
	for i := range 3 {
		fake.refused = append(fake.refused, field.ErrorRow{Owner: o, Name: fmt.Sprint("f", i), List: "dirtyKey:0error", Revision: 4, Reason: "Data too long", Attempts: 2, First: 5, Next: 6, Dropped: i == 2})
	}
	row := func(i int, more string) string {
		return fmt.Sprintf(`{"appId":"1","regionId":"1","logicType":"player","ownerId":"7/8","name":"f%d","list":"dirtyKey:0error","revision":4,"reason":"Data too long","attempts":2,"first":5,"next":6%s}`, i, more)
	}
	k.exchange([]exchange{
		{"GET", "/v1/landing/errors", "", "", 200, `{"errors":[` + row(0, "") + "," + row(1, "") + "," + row(2, `,"dropped":true`) + `]}`, ""},
		{"GET", "/v1/landing/errors?limit=1", "", "", 200, `{"errors":[` + row(0, "") + `],"more":true,"next":"1_1/player:7/8:f0"}`, ""},
		{"GET", "/v1/landing/errors?limit=1&after=1_1/player:7/8:f0", "", "", 200, `{"errors":[` + row(1, "") + `],"more":true,"next":"1_1/player:7/8:f1"}`, ""},
		{"GET", "/v1/landing/errors?after=x", "", "", 400, `bad_request`, ""},
		{"POST", "/v1/landing/errors/retry", `{"rows":[{"logicType":"player","ownerId":"7/8","name":"f1"}]}`, "", 200, `{"count":3}`, ""},
	})
	require.Equal(t, []field.Ref{{Owner: o, Name: "f1"}}, fake.asked)
	k.exchange([]exchange{
		{"POST", "/v1/landing/errors/retry", ``, "", 200, `{"count":3}`, ""},
		{"POST", "/v1/landing/errors/retry", `{"rows":[]}`, "", 400, `bad_request`, ""},
		{"POST", "/v1/landing/errors/retry", `{"rows":[{"logicType":"player","ownerId":"7"}]}`, "", 400, `bad_request`, ""},
	})
	require.Empty(t, fake.asked, "that is all of them")
	one := "/v1/landing/errors?logicType=player&ownerId=7%2F8&name=f1"
	k.exchange([]exchange{
		{"DELETE", one, "", "", 400, `unconfirmed`, ""},
		{"DELETE", one + "&confirm=f1", "", "", 400, `bad_request`, ""},
		{"DELETE", one + "&confirm=-1", "", "", 400, `bad_request`, ""},
		{"DELETE", "/v1/landing/errors", "", "", 400, `unconfirmed`, ""},
		{"DELETE", "/v1/landing/errors?confirm=all", "", "", 400, `bad_request`, ""},
		{"DELETE", "/v1/landing/errors?logicType=player&confirm=1", "", "", 400, `bad_request`, ""},
		{"DELETE", "/v1/landing/errors?appId=1&confirm=1", "", "", 400, `bad_request`, ""},
		{"DELETE", one + "&confirm=1", "", "", 200, `{"count":3}`, ""},
	})
	require.Equal(t, []field.Ref{{Owner: o, Name: "f1"}}, fake.asked)
	require.EqualValues(t, 1, fake.confirm)
	k.exchange([]exchange{{"DELETE", "/v1/landing/errors?confirm=3", "", "", 200, `{"count":3}`, ""}})
	require.Nil(t, fake.asked, "all")
	require.EqualValues(t, 3, fake.confirm)
}

// H38: dirty count, error count and last landing per table.
func TestH38StatusPerTable(t *testing.T) {
	fake := newFakeStorage()
	fake.tables = append(fake.tables, field.TableStatus{Table: 1, List: "dirtyKey:1", Errors: "dirtyKey:1error", Saving: "dirtyKey:1saving"})
	k := start(t, func(cfg *Config, stores *Stores) {
		cfg.Clock, stores.Storage = clocktest.NewFake(time.UnixMilli(storeTime)), fake
	})
	const first = `{"table":0,"list":"dirtyKey:0","errors_list":"dirtyKey:0error","dirty":3,"oldest":1699999995000,"errors":1,"dropped":0,"landed":40,"last":1699999998000,"rate":7,"cursor":9}`
	const second = `{"table":1,"list":"dirtyKey:1","saving":"dirtyKey:1saving","errors_list":"dirtyKey:1error","dirty":0,"oldest":0,"errors":0,"dropped":0,"landed":0,"last":0,"rate":0,"cursor":0}`
	const whole = `{"now_ms":1700000000000,"tables":[` + first + `,` + second + `],
		"memory":{"queries":1,"evicted":2,"purged_fields":3,"purged_rows":4,"limits":[{"name":"pages","use":5,"most":6,"met":7}]}}`
	require.JSONEq(t, whole, k.get("/v1/landing").body)
	var status struct{ Landing json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/status").body), &status))
	require.JSONEq(t, whole, string(status.Landing))
	families := scrape(t, k)
	for name, want := range map[string]string{
		"landing_dirty_fields": "3", "landing_oldest_dirty_seconds": "5", "landing_refused_fields": "1", "landing_dropped_fields": "0",
		"landing_landed_fields_total": "40", "landing_last_timestamp_seconds": "1.699999998e+09", "landing_rows_per_second": "7",
	} {
		require.Equal(t, want, families[prefix+name].values[name+`{table="0"}`], name)
		require.Equal(t, "0", families[prefix+name].values[name+`{table="1"}`], name)
	}
	for name, want := range map[string]string{
		"storage_queries_total{}": "1", "storage_evicted_fields_total{}": "2", "storage_purged_fields_total{}": "3", "storage_purged_rows_total{}": "4",
		`storage_limit_use{limit="pages"}`: "5", `storage_limit_most{limit="pages"}`: "6", `storage_limits_met_total{limit="pages"}`: "7",
	} {
		family, _, _ := strings.Cut(name, "{")
		require.Equal(t, want, families[prefix+family].values[name], name)
	}
}

// Without a database nothing is dirty, and that is what is told.
func TestLandingWithoutADatabase(t *testing.T) {
	k, fake := startStorage(t)
	fake.tables = nil
	require.Regexp(t, `"tables":\[\]`, k.get("/v1/landing").body)
	require.NotContains(t, k.get("/metrics").body, "landing_dirty_fields")
}
