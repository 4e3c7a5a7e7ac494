package protocol_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/player/landops"
	"confcenter/player/playerjson"
	"confcenter/protocol"
)

// read parses a body of player storage.
func read(t require.TestingT, body []byte) *protocol.Request {
	var r protocol.Request
	require.NoError(t, r.Parse(body), "%q", body)
	return &r
}

// asks are the requests that are structs, and tells read such replies.
var asks, tells = func() (map[protocol.Command]func() any, map[protocol.Command]func([]byte) error) {
	asks := map[protocol.Command]func() any{
		protocol.StAll:    func() any { return new(protocol.StorageQuery) },
		protocol.StOwners: func() any { return new(protocol.StorageOwnersQuery) },
	}
	for _, m := range landops.Models(nil) {
		for place := range m.Operations {
			asks[protocol.OfModel(m.Name, place)] = m.Operations[place].Ask
		}
	}
	done := told[field.Done]
	return asks, map[protocol.Command]func([]byte) error{
		protocol.StStatus: told[field.Tables], protocol.StErrors: told[field.ErrorPage], protocol.StRetry: told[field.Count], protocol.StDrop: told[field.Count], protocol.StRescan: done,
		protocol.LdSettings: told[field.Settings], protocol.LdClaim: told[field.Claim], protocol.LdTake: told[field.Taken], protocol.LdLanded: done, protocol.LdNewer: done, protocol.LdRelease: done,
	}
}()

func told[A any](body []byte) error {
	_, err := protocol.ParseReply[A](body)
	return err
}

// readStorageRequest reads a request of the command.
func readStorageRequest(cmd protocol.Command, r *protocol.Request) (err error) {
	switch {
	case cmd.StorageKind() != 0:
		err = r.StorageWrite(cmd, new(field.Write))
	case cmd == protocol.StGet:
		err = r.StorageRead(new(protocol.StorageRead))
	case asks[cmd] != nil:
		err = r.Into(asks[cmd]())
	default:
		err = fmt.Errorf("nobody reads requests of %v", cmd)
	}
	return err
}

// readStorageReply reads a reply to the command.
func readStorageReply(cmd protocol.Command, r *protocol.Request) (err error) {
	count, _ := r.Member("count")
	_, counts := count.Int64()
	switch body := r.Body(); {
	case counts:
		_, err = protocol.ParseReply[field.Count](body)
	case tells[cmd] != nil:
		err = tells[cmd](body)
	case cmd.StorageKind() != 0:
		_, err = protocol.ParseStorageOutcome(cmd.StorageKind(), body)
	case cmd == protocol.StGet, cmd == protocol.StAll:
		_, err = protocol.ParseStoragePage(body)
	case cmd == protocol.StOwners:
		err = told[field.OwnerPage](body)
	default:
		err = fmt.Errorf("nobody reads replies to %v", cmd)
	}
	return err
}

func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "1", "a:b", `"`, "\x00", "{}", "'%_", "玩家"}), rapid.String()).Draw(t, label)
}

func drawOwner(t *rapid.T) field.Owner {
	place := func(label string) string { return rapid.OneOf(rapid.Just("1"), rapid.StringN(1, 5, -1)).Draw(t, label) }
	return field.Owner{App: place("app"), Region: place("region"), Logic: drawText(t, "logic"), ID: drawText(t, "id")}
}

// distinct draws names of which no two are the same.
func distinct(t *rapid.T, label string) []string {
	return rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringMatching(`[a-c]`), rapid.String()), 0, 5, rapid.ID).Draw(t, label)
}

// drawFields draws texts first, since that is the order in which they arrive.
func drawFields(t *rapid.T, label string, versions bool) (fields []field.Field) {
	names := distinct(t, label)
	texts := rapid.IntRange(0, len(names)).Draw(t, "texts")
	for i, name := range names {
		f := field.Field{Name: name, Value: []byte(drawText(t, "text"))}
		if i >= texts {
			f.Value = append([]byte{0xFF}, rapid.SliceOf(rapid.Byte()).Draw(t, "octets")...)
		}
		if versions {
			f.Version = rapid.Int64().Draw(t, "version")
		}
		fields = append(fields, f)
	}
	return fields
}

func drawNumbers(t *rapid.T, label string) (numbers map[string]int64) {
	for _, name := range distinct(t, label) {
		if numbers == nil {
			numbers = map[string]int64{}
		}
		numbers[name] = rapid.Int64().Draw(t, "number")
	}
	return numbers
}

func drawLines(t *rapid.T) []field.Ref {
	return some(t, "rows", func(t *rapid.T) field.Ref {
		return field.Ref{Owner: drawOwner(t), Name: "n" + drawText(t, "name")}
	})
}

var storageWrites = []protocol.Command{protocol.StUpdate, protocol.StIncr, protocol.StRemove, protocol.StRestore}

func drawStorageWrite(t *rapid.T, cmd protocol.Command) field.Write {
	w := field.Write{Owner: drawOwner(t), Kind: cmd.StorageKind(), Expect: drawNumbers(t, "expect"), WantPrev: rapid.Bool().Draw(t, "prev"), Token: drawText(t, "token")}
	switch cmd {
	case protocol.StUpdate:
		w.Fields = drawFields(t, "fields", false)
	case protocol.StIncr:
		for _, name := range distinct(t, "deltas") {
			w.Deltas = append(w.Deltas, field.Delta{Name: name, By: rapid.Int64().Draw(t, "by")})
		}
	default:
		if w.Names = distinct(t, "names"); len(w.Names) == 0 {
			w.Names = nil
		}
	}
	return w
}

func TestStorageRequestsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, cmd := range storageWrites {
			want := drawStorageWrite(t, cmd)
			body := protocol.AppendStorageWrite(nil, &want)
			var got field.Write
			require.NoError(t, read(t, body).StorageWrite(cmd, &got), "%s", body)
			require.Equal(t, want, got, "%s", body)
		}
		page := protocol.StorageQuery{Owner: drawOwner(t), Versions: rapid.Bool().Draw(t, "versions"),
			Ask: field.Ask{After: drawText(t, "after"), Limit: int(rapid.Int32Min(0).Draw(t, "limit")), Revision: kv.Revision(rapid.Int64Min(0).Draw(t, "rev"))}}
		requireAsked(t, page)
		get := protocol.StorageNames{Owner: drawOwner(t), Versions: rapid.Bool().Draw(t, "versions"), Names: distinct(t, "names")}
		requireRead(t, get, protocol.AppendMessage(nil, &get))
		requireAsked(t, protocol.StorageOwnersQuery{App: drawOwner(t).App, Region: drawOwner(t).Region, Logic: drawText(t, "logic"), After: drawText(t, "after"),
			Limit: rapid.IntRange(1, playerjson.MaxOwners).Draw(t, "limit"), CountOnly: rapid.Bool().Draw(t, "count")})
	})
}

func TestLandingRequestsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requireAsked(t, field.ErrorsAsk{After: field.Ref{Owner: drawOwner(t), Name: drawText(t, "name")}, Limit: rapid.IntRange(1, field.MaxErrors).Draw(t, "limit")})
		rows := field.Refused{Rows: drawLines(t)}
		requireAsked(t, field.RetryAsk{Refused: rows})
		requireAsked(t, field.RetryAsk{Since: new(rapid.Int64Min(0).Draw(t, "since"))})
		requireAsked(t, field.DropAsk{Refused: rows, Confirm: rapid.Int64Min(0).Draw(t, "confirm")})
	})
}

func TestStorageRepliesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields, versions := drawFields(t, "fields", true), rapid.Bool().Draw(t, "versions")
		page := field.Page{Fields: fields, Revision: drawRevision(t, "rev"), More: len(fields) > 0 && fields[len(fields)-1].Name != "" && rapid.Bool().Draw(t, "more")}
		gotPage, err := protocol.ParseStoragePage(protocol.AppendStoragePage(nil, &page, true))
		require.NoError(t, err)
		require.Equal(t, page, gotPage.Page)
		if page.More {
			require.Equal(t, fields[len(fields)-1].Name, gotPage.Next)
		}
		gotPage, err = protocol.ParseStoragePage(protocol.AppendStorageFields(nil, fields, versions))
		require.NoError(t, err)
		if versions {
			require.Equal(t, fields, gotPage.Fields)
		}
		require.Len(t, gotPage.Fields, len(fields))
		for _, cmd := range storageWrites {
			want := field.Outcome{Revision: drawRevision(t, "rev"), Prev: drawFields(t, "prev", true), Replayed: rapid.Bool().Draw(t, "replayed")}
			switch cmd {
			case protocol.StUpdate:
				for _, name := range distinct(t, "versions") {
					want.Fields = append(want.Fields, field.Field{Name: name, Version: rapid.Int64().Draw(t, "version")})
				}
			case protocol.StIncr:
				for _, name := range distinct(t, "sums") {
					want.Fields = append(want.Fields, field.Field{Name: name, Value: kv.IntValue(rapid.Int64().Draw(t, "sum")).Data, Version: rapid.Int64().Draw(t, "version")})
				}
			case protocol.StRestore:
				want.Fields = drawFields(t, "restored", true)
			}
			got, err := protocol.ParseStorageOutcome(cmd.StorageKind(), protocol.AppendStorageOutcome(nil, cmd.StorageKind(), &want, true))
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		owners := some(t, "owners", func(t *rapid.T) field.Owner {
			return field.Owner{Logic: drawText(t, "logic"), ID: drawText(t, "id")}
		})
		next := drawText(t, "next")
		listed := field.NewOwnerPage(owners, next)
		require.Equal(t, next != "", listed.More)
		requireTold(t, *listed)
	})
}

func TestLandingRepliesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := some(t, "tables", func(t *rapid.T) field.TableStatus {
			n := rapid.Int64Min(0)
			return field.TableStatus{
				Table: int(rapid.Int32().Draw(t, "table")), List: drawText(t, "list"), Saving: drawText(t, "saving"), Errors: drawText(t, "errors"), Dirty: n.Draw(t, "dirty"), Oldest: n.Draw(t, "oldest"),
				Refused: n.Draw(t, "refused"), Dropped: n.Draw(t, "dropped"), Landed: uint64(n.Draw(t, "landed")), Last: n.Draw(t, "last"), Rate: n.Draw(t, "rate"), Cursor: n.Draw(t, "cursor"),
			}
		})
		requireTold(t, field.Tables{Tables: tables})
		refused := some(t, "refused", func(t *rapid.T) field.ErrorRow {
			return field.ErrorRow{
				Owner: drawOwner(t), Name: drawText(t, "name"), List: drawText(t, "list"), Revision: drawRevision(t, "rev"), Reason: drawText(t, "reason"),
				Attempts: int(rapid.Int32().Draw(t, "attempts")), First: rapid.Int64().Draw(t, "first"), Next: rapid.Int64().Draw(t, "next"), Dropped: rapid.Bool().Draw(t, "dropped"),
			}
		})
		requireTold(t, field.ErrorPage{Errors: refused, More: rapid.Bool().Draw(t, "more")})
	})
}

// A client that sends the wrong thing is told which member it is.
func TestStorageRequestsAreStrict(t *testing.T) {
	many := make(map[string]string)
	for i := range field.MaxFields {
		many[fmt.Sprint(i)] = ""
	}
	full, err := json.Marshal(many)
	require.NoError(t, err)
	for body, want := range map[string]struct {
		cmd  protocol.Command
		code codes.Code
		text string
	}{
		`{"ownerId":7}`:                 {protocol.StGet, codes.BadRequest, `"ownerId" is not a string`},
		`{"names":{}}`:                  {protocol.StGet, codes.BadRequest, `"names" is not an array`},
		`{"names":["a",1]}`:             {protocol.StGet, codes.BadRequest, `"names" is not an array of strings`},
		`{"limit":-1}`:                  {protocol.StAll, codes.BadRequest, `"limit" is not 0 or more`},
		`{"rev":1.5}`:                   {protocol.StAll, codes.BadRequest, `"rev" is not an integer`},
		`{"fields":["a"]}`:              {protocol.StUpdate, codes.BadRequest, `"fields" is not an object`},
		`{"fields":{"gold":10}}`:        {protocol.StUpdate, codes.BadValue, `field "gold" is a JSON number`},
		"{\"fields\":{\"x\":\"\xff\"}}": {protocol.StUpdate, codes.BadValue, `field "x" is not UTF-8`},
		`{"bytes":{"x":"a"}}`:           {protocol.StUpdate, codes.BadValue, `field "x" of bytes is not base64`},
		`{"bytes":{"x":1}}`:             {protocol.StUpdate, codes.BadValue, `field "x" of bytes is not base64`},
		`{"deltas":{"gold":"much"}}`:    {protocol.StIncr, codes.BadRequest, `deltas of field "gold"`},
		`{"expect":{"gold":9e99}}`:      {protocol.StRemove, codes.BadRequest, `expect of field "gold"`},
		`{"expect":{"x":1,"x":2}}`:      {protocol.StIncr, codes.BadRequest, `expect has field "x" twice`},
		`{"token":1}`:                   {protocol.StRestore, codes.BadRequest, `"token" is not a string`},
		`{"bytes":{"x":""},"fields":` + string(full) + `}`: {protocol.StUpdate, codes.TooManyOps, "more than 2048 fields"},
		`{"rows":[{"name":7}]}`:                            {protocol.StRetry, codes.BadRequest, `"name" is not a string`},
		`{"after":"bag"}`:                                  {protocol.StErrors, codes.BadRequest, `"after" is not an object`},
		`{"confirm":"yes"}`:                                {protocol.StDrop, codes.BadRequest, `"confirm" is not an integer`},
		`{"count":1,"logicType":[]}`:                       {protocol.StOwners, codes.BadRequest, `"logicType" is not a string`},
	} {
		err := readStorageRequest(want.cmd, read(t, []byte(body)))
		require.ErrorIs(t, err, want.code, body)
		require.ErrorContains(t, err, want.text, body)
	}
}

// A request that names no app and no region means 1, as ServerInfo does.
func TestStorageDefaults(t *testing.T) {
	for body, want := range map[string]field.Owner{
		`{"logicType":"bag","ownerId":"42"}`:                              {App: "1", Region: "1", Logic: "bag", ID: "42"},
		`{"appId":null,"regionId":"eu","logicType":"bag","ownerId":"42"}`: {App: "1", Region: "eu", Logic: "bag", ID: "42"},
		`{"appId":"","ownerId":"a","ownerId":"b"}`:                        {App: "", Region: "1", ID: "a"},
	} {
		q, err := protocol.Read[protocol.StorageQuery](read(t, []byte(body)))
		require.NoError(t, err)
		require.Equal(t, want, q.Owner, body)
	}
}

func TestStorageConflictTellsVersions(t *testing.T) {
	body := protocol.AppendStorageMismatch(nil, &field.Mismatch{Fields: []field.Field{{Name: "gold", Version: 7}, {Name: "none"}}})
	w, err := protocol.ParseStorageOutcome(field.Update, body)
	var refused *protocol.RefusedError
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, codes.Conflict, refused.Result.Code)
	require.Equal(t, []field.Field{{Name: "gold", Version: 7}, {Name: "none"}}, w.Fields)
}

// storageTalk is a conversation about player storage, every command at least once.
func storageTalk() (talks []talk) {
	seq := uint16(0)
	exchange := func(cmd protocol.Command, request, reply []byte) {
		seq++
		talks = append(talks, ask(cmd, seq, request), answer(cmd, seq, reply))
	}
	owner := field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"}
	eu := field.Owner{App: "game", Region: "eu", Logic: "bag", ID: "a:b \"玩家\""}
	gold := field.Field{Name: "gold", Value: []byte("10"), Version: 1_700_000_000_000_020}
	pic := field.Field{Name: "pic", Value: []byte{0, 1, 255}, Version: 1_700_000_000_000_020}

	exchange(protocol.StGet, protocol.AppendMessage(nil, &protocol.StorageNames{Owner: owner, Names: []string{"gold", "none"}}), protocol.AppendStorageFields(nil, nil, false))
	write := func(cmd protocol.Command, w field.Write, reply []byte) {
		w.Kind = cmd.StorageKind()
		exchange(cmd, protocol.AppendStorageWrite(nil, &w), reply)
	}
	wrote := func(cmd protocol.Command, w field.Write, out field.Outcome) {
		write(cmd, w, protocol.AppendStorageOutcome(nil, cmd.StorageKind(), &out, w.WantPrev))
	}
	update := field.Write{Owner: owner, Fields: []field.Field{gold, pic}, Token: "t-1"}
	done := field.Outcome{Revision: 20, Fields: []field.Field{gold, pic}}
	wrote(protocol.StUpdate, update, done)
	done.Replayed = true
	wrote(protocol.StUpdate, update, done)
	write(protocol.StUpdate, field.Write{Owner: eu, Fields: []field.Field{gold}, Expect: map[string]int64{"gold": 0}, WantPrev: true},
		protocol.AppendStorageMismatch(nil, &field.Mismatch{Fields: []field.Field{gold}}))
	exchange(protocol.StGet, protocol.AppendMessage(nil, &protocol.StorageNames{Owner: owner, Names: []string{"gold", "pic"}, Versions: true}),
		protocol.AppendStorageFields(nil, []field.Field{gold, pic}, true))
	exchange(protocol.StAll, protocol.AppendMessage(nil, &protocol.StorageQuery{Owner: owner, Ask: field.Ask{Limit: 1}}),
		protocol.AppendStoragePage(nil, &field.Page{Fields: []field.Field{gold}, Revision: 20, More: true}, false))
	exchange(protocol.StAll, protocol.AppendMessage(nil, &protocol.StorageQuery{Owner: owner, Ask: field.Ask{After: "gold", Revision: 20}}),
		protocol.AppendStoragePage(nil, &field.Page{Fields: []field.Field{pic}, Revision: 20}, false))
	sum := field.Field{Name: "gold", Value: []byte("15"), Version: gold.Version + 1}
	wrote(protocol.StIncr, field.Write{Owner: owner, Deltas: []field.Delta{{Name: "gold", By: 5}}, WantPrev: true}, field.Outcome{Revision: 21, Fields: []field.Field{sum}, Prev: []field.Field{gold}})
	names := field.Write{Owner: owner, Names: []string{"gold", "none"}}
	wrote(protocol.StRemove, names, field.Outcome{Revision: 22})
	write(protocol.StRestore, names, protocol.AppendResult(nil, int(codes.NotFound), "there is no field none to restore"))
	names.Names = names.Names[:1]
	wrote(protocol.StRestore, names, field.Outcome{Revision: 23, Fields: []field.Field{sum}})
	exchange(protocol.StOwners, protocol.AppendMessage(nil, &protocol.StorageOwnersQuery{App: "1", Region: "1", Logic: "bag", Limit: 1}),
		protocol.AppendReply(nil, field.NewOwnerPage([]field.Owner{{Logic: "bag", ID: "42"}}, "bag:42")))
	exchange(protocol.StOwners, protocol.AppendMessage(nil, &protocol.StorageOwnersQuery{CountOnly: true}), protocol.AppendReply(nil, &field.Count{Count: 2}))
	exchange(protocol.StStatus, []byte(`{}`), protocol.AppendReply(nil, &field.Tables{Tables: []field.TableStatus{
		{List: "dirtyKey:0", Saving: "dirtyKey:0saving", Errors: "dirtyKey:0error", Dirty: 3, Oldest: 1_700_000_000_020, Refused: 1, Landed: 40, Last: 1_700_000_000_010, Rate: 12, Cursor: 19},
		{Table: 1, List: "dirtyKey:1", Errors: "dirtyKey:1error"},
	}}))
	refused := field.ErrorRow{Owner: eu, Name: "pic", List: "dirtyKey:0error", Revision: 20, Reason: "Data too long for column 'value'", Attempts: 2, First: 1_700_000_000_030, Next: 1_700_000_060_030}
	exchange(protocol.StErrors, protocol.AppendMessage(nil, &field.ErrorsAsk{Limit: 1}), protocol.AppendReply(nil, &field.ErrorPage{Errors: []field.ErrorRow{refused}, More: true}))
	exchange(protocol.StErrors, protocol.AppendMessage(nil, &field.ErrorsAsk{After: refused.Ref()}), protocol.AppendReply(nil, &field.ErrorPage{}))
	rows := field.Refused{Rows: []field.Ref{refused.Ref()}}
	exchange(protocol.StRetry, protocol.AppendMessage(nil, &field.RetryAsk{}), protocol.AppendReply(nil, &field.Count{Count: 1}))
	exchange(protocol.StRetry, protocol.AppendMessage(nil, &field.RetryAsk{Refused: rows}), protocol.AppendReply(nil, &field.Count{Count: 1}))
	exchange(protocol.StRetry, protocol.AppendMessage(nil, &field.RetryAsk{Since: new(int64(1_700_000_000_000))}), protocol.AppendReply(nil, &field.Count{Count: 250}))
	exchange(protocol.StDrop, protocol.AppendMessage(nil, &field.DropAsk{Refused: rows, Confirm: 1}), protocol.AppendReply(nil, &field.Count{Count: 1}))
	exchange(protocol.StRescan, protocol.AppendMessage(nil, &field.RescanAsk{App: "game", Region: "eu", Version: 1_700_000_000_000_099}), protocol.AppendResult(nil, 0, "success"))
	exchange(protocol.StRescan, protocol.AppendMessage(nil, &field.RescanAsk{App: "1", Region: "1"}), protocol.AppendResult(nil, int(codes.NotImplemented), "no database is set up that fields could be landed in: start the server with --landing"))
	for _, one := range landerTalk() {
		exchange(one.cmd, one.request, one.reply)
	}
	return talks
}

// Every body of player storage, as it goes over the wire. A change here is a change of the
// protocol.
func TestStorageGolden(t *testing.T) {
	const file = "testdata/storage.golden"
	got, seen := printed(t, storageTalk())
	for _, row := range protocol.Commands {
		require.Equal(t, row.ID.IsStorage(), seen[row.ID], row.Name)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// FuzzStorage reads any bytes as each of the requests and replies. What is taken as a write
// is sent again the same.
func FuzzStorage(f *testing.F) {
	for _, one := range storageTalk() {
		f.Add(one.frame[protocol.HeaderSize:])
	}
	f.Add([]byte(`{"fields":{"a":"1","a":"2"},"bytes":{"a":"/w=="},"deltas":{"":-9223372036854775808}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		parses := r.Parse(body) == nil
		for _, row := range protocol.Commands {
			if !row.ID.IsStorage() {
				continue
			}
			var broken protocol.Request
			_ = broken.Parse(body)
			_ = readStorageReply(row.ID, &broken)
			if !parses {
				continue
			}
			if err := readStorageRequest(row.ID, &r); err != nil {
				require.NotEqual(t, codes.Internal, codes.Of(err), "%v", err)
			} else if row.ID.StorageKind() != 0 {
				var w, again field.Write
				require.NoError(t, r.StorageWrite(row.ID, &w))
				sent := protocol.AppendStorageWrite(nil, &w)
				require.NoError(t, read(t, sent).StorageWrite(row.ID, &again), "%s", sent)
				require.Equal(t, string(sent), string(protocol.AppendStorageWrite(nil, &again)))
			}
		}
	})
}
