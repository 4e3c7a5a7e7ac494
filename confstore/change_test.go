package confstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
)

type changeOutcome struct {
	change.Result
	err error
}

func changeNow(t testing.TB, s *Store, req change.Request) (change.Result, error) {
	t.Helper()
	done := make(chan changeOutcome, 1)
	if err := s.Change(req, func(r change.Result, err error) { done <- changeOutcome{r, err} }); err != nil {
		return change.Result{}, err
	}
	select {
	case o := <-done:
		return o.Result, o.err
	case <-time.After(3 * patience):
		require.FailNow(t, "Change was not answered")
		return change.Result{}, nil
	}
}

func digest(text string) *log.Digest {
	d := log.Digest{}
	if text != "" {
		d = log.DigestOf([]byte(text))
	}
	return &d
}

func write(name, text string) change.Document { return change.Document{Name: name, File: []byte(text)} }

func TestAChangeIsOneRevisionAndOneBatch(t *testing.T) {
	k := newKit(t, map[string]string{
		"a.json": `{"a":1}`, "b.json": `{"b":1}`, "same.json": `{"s":1}`, "heir.json": `{}`,
		"_meta.json": `{"conf_inherit":{"heir.json":"b.json"}}`,
	})
	file := "{\n  \"a\": 2 }\r\n"
	r, err := changeNow(t, k.Store, change.Request{Documents: []change.Document{
		write("new/x.json", "null"), write("a.json", file), {Name: "b.json"}, write("same.json", `{"s":1}`), {Name: "heir.json", Keep: true},
	}})
	require.NoError(t, err)
	b := k.next()
	require.Equal(t, []string{"a.json", "b.json", "heir.json", "new/x.json"}, names(b))
	require.ElementsMatch(t, names(b), r.Told)
	for _, name := range []string{"a.json", "b.json", "new/x.json"} {
		d, err := k.writer.log.Document(name)
		require.NoError(t, err)
		require.Equal(t, r.Revision, d.Revision, name)
	}
	same, err := k.writer.log.Document("same.json")
	require.NoError(t, err)
	require.Less(t, same.Revision, r.Revision)
	require.True(t, k.Snapshot().Node("b.json").Deleted())
	require.Equal(t, "null", k.text("new/x.json"))
	data, err := k.ReadFile("a.json", anySize)
	require.NoError(t, err)
	require.Equal(t, file, string(data), "the bytes are as they were sent")
	_, err = k.ReadFile("b.json", anySize)
	require.Equal(t, codes.NotFound, codes.Of(err))

	r, err = changeNow(t, k.Store, change.Request{Documents: []change.Document{write("a.json", file), {Name: "b.json"}}})
	require.NoError(t, err)
	require.Zero(t, r, "everything is so already")
	k.drainedNone()
}

func TestACheckedChangeChangesNothing(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"a":1}`})
	held := k.Store.cfg.Documents.Held()
	r, err := changeNow(t, k.Store, change.Request{Check: true, Documents: []change.Document{write("a.json", `{"a":2}`), write("b.json", "1")}})
	require.NoError(t, err)
	require.Zero(t, r.Revision)
	require.Equal(t, []string{"a.json", "b.json"}, r.Told)
	require.Equal(t, `{"a":1}`, k.text("a.json"))
	k.none()
	require.Equal(t, held, k.Store.cfg.Documents.Held())
}

// Nothing is written, and everything that is wrong is named.
func TestAChangeIsRefusedAsAWhole(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"a":1}`, "b.json": `{"b":1}`})
	for name, c := range map[string]struct {
		list []change.Document
		code codes.Code
		text []string
	}{
		"a conflict": {[]change.Document{write("new.json", "1"), {Name: "a.json", File: []byte("2"), Base: digest("other")}}, codes.Conflict, []string{"1 of 2 documents", "a.json: it was to replace the file"}},
		"not absent": {[]change.Document{{Name: "a.json", File: []byte("2"), Base: digest("")}}, codes.Conflict, []string{"it was to replace no file"}},
		"absent":     {[]change.Document{{Name: "new.json", Base: digest("other")}}, codes.Conflict, []string{"there is no file"}},
		"kept":       {[]change.Document{write("new.json", "1"), {Name: "a.json", Keep: true, Base: digest("other")}}, codes.Conflict, []string{"a.json"}},
		"no JSON": {[]change.Document{write("a.json", "{"), {Name: "b.json", Base: digest("other")}, write("c.json", "[")}, codes.BadJSON,
			[]string{"3 of 3 documents", "a.json", "b.json", "c.json"}},
		"twice":          {[]change.Document{write("a.json", "1"), write("a.json", "2")}, codes.BadRequest, []string{"a.json occurs twice"}},
		"below a file":   {[]change.Document{write("new.json", "1"), write("new.json/x.json", "2")}, codes.BadName, []string{"new.json/x.json lies below new.json"}},
		"below another":  {[]change.Document{write("new.json", "1"), write("a.json/x.json", "2")}, codes.BadName, []string{"a.json/x.json"}},
		"a name":         {[]change.Document{write("new.json", "1"), write("../x.json", "2")}, codes.BadName, []string{"../x.json"}},
		"nothing":        {nil, codes.Limit, []string{"0 documents"}},
		"bad _meta.json": {[]change.Document{write("new.json", "1"), write("_meta.json", `[1]`)}, codes.BadRequest, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := changeNow(t, k.Store, change.Request{Documents: c.list})
			require.Equal(t, c.code, codes.Of(err), "%v", err)
			for _, text := range c.text {
				require.Contains(t, codes.Message(err), text)
			}
			require.NotContains(t, codes.Message(err), k.cfg.Dir)
			require.Empty(t, r.Told)
			k.none()
			require.Nil(t, k.Snapshot().Node("new.json"))
		})
	}
	r, err := changeNow(t, k.Store, change.Request{Documents: []change.Document{{Name: "a.json", File: []byte("2"), Base: digest(`{"a":1}`)}, {Name: "b.json", Keep: true, Base: digest(`{"b":1}`)}, {Name: "new.json", File: []byte("1"), Base: digest("")}}})
	require.NoError(t, err)
	require.Len(t, r.Told, 2)
}

// Who looks at all documents to find which to change must not miss one that comes meanwhile.
func TestAChangeOfAllDocumentsIsRefusedIfOthersCameBeforeIt(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "0"})
	first, err := changeNow(t, k.Store, change.Request{Documents: []change.Document{write("a.json", "1")}})
	require.NoError(t, err)
	second, err := changeNow(t, k.Store, change.Request{Documents: []change.Document{write("new.json", "1")}})
	require.NoError(t, err)
	late := change.Request{Documents: []change.Document{write("a.json", "0")}, Behind: first.Revision}
	_, err = changeNow(t, k.Store, late)
	require.Equal(t, codes.Conflict, codes.Of(err), "%v", err)
	require.Contains(t, codes.Message(err), fmt.Sprintf("by revision %d", second.Revision))
	late.Check = true
	_, err = changeNow(t, k.Store, late)
	require.NoError(t, err, "what it would do can be asked for")
	late.Check, late.Behind = false, second.Revision
	_, err = changeNow(t, k.Store, late)
	require.NoError(t, err)
}

func TestAnErrorOfAChangeNamesManyDocumentsAndCountsTheRest(t *testing.T) {
	k := newKit(t, nil)
	var list []change.Document
	for i := range 100 {
		list = append(list, write(fmt.Sprintf("%02d.json", i), "{"))
	}
	r, err := changeNow(t, k.Store, change.Request{Documents: list})
	require.Equal(t, codes.BadJSON, codes.Of(err))
	require.Contains(t, codes.Message(err), "100 of 100 documents")
	require.Contains(t, codes.Message(err), "and 80 more")
	require.Len(t, r.Refused, 100)
	require.Equal(t, "99.json", r.Refused[99].Name)
}

// What is edited on the disk before a change comes is not lost: the change is based on it.
func TestAChangeSeesEditsThatNobodyHasSeenYet(t *testing.T) {
	k := newMemKit(t, map[string]string{"a.json": `{"a":1}`, "b.json": `{"b":1}`})
	k.write("a.json", `{"a":"edited"}`, 2000)
	_, err := changeNow(t, k.Store, change.Request{Documents: []change.Document{{Name: "a.json", File: []byte("2"), Base: digest(`{"a":1}`)}, write("b.json", "3")}})
	require.Equal(t, codes.Conflict, codes.Of(err))
	require.Equal(t, `{"a":"edited"}`, k.text("a.json"))
	require.Equal(t, `{"b":1}`, k.text("b.json"))
}

func TestDocumentsFoundChangedTogetherAreOneRevisionAndOneBatch(t *testing.T) {
	k := newMemKit(t, map[string]string{"a.json": "1", "b.json": "1", "gone.json": "1"})
	k.write("a.json", "2", 2000)
	k.write("b.json", "2", 2000)
	k.write("new.json", "2", 2000)
	k.remove("gone.json")
	require.Equal(t, []string{"a.json", "b.json", "gone.json", "new.json"}, names(k.next()))
	require.Empty(t, k.batches)
	a, err := k.writer.log.Document("a.json")
	require.NoError(t, err)
	for _, name := range []string{"b.json", "gone.json", "new.json"} {
		d, err := k.writer.log.Document(name)
		require.NoError(t, err)
		require.Equal(t, a.Revision, d.Revision)
	}
}

// Of two changes of the same documents that are based on the same, one is made.
func TestConcurrentChangesAreInOneLine(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "0", "b.json": "0"})
	const writers = 8
	var mu sync.Mutex
	made, refused := 0, 0
	var waiting sync.WaitGroup
	for i := range writers {
		waiting.Add(1)
		text := []byte(fmt.Sprint(i + 1))
		require.NoError(t, k.Change(change.Request{Documents: []change.Document{{Name: "a.json", File: text, Base: digest("0")}, {Name: "b.json", File: text, Base: digest("0")}}}, func(_ change.Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			defer waiting.Done()
			if err == nil {
				made++
			} else if codes.Of(err) == codes.Conflict {
				refused++
			}
		}))
	}
	waiting.Wait()
	require.Equal(t, 1, made)
	require.Equal(t, writers-1, refused)
	require.Equal(t, k.text("a.json"), k.text("b.json"))
}

// A writer who does not know whether it was made asks again.
func TestAChangeAskedForAgainIsNotMadeAgain(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "0", "b.json": "0"})
	ask := change.Request{Actor: &access.Actor{Token: "t1"}, Documents: []change.Document{{Name: "a.json", File: []byte("1"), Base: digest("0")}, {Name: "b.json"}}}
	first, err := changeNow(t, k.Store, ask)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	require.Equal(t, []change.Changed{
		{Name: "a.json", Kind: log.Changed, Mtime: k.mtime("a.json"), Size: 1, Hash: *digest("1"), Was: *digest("0")},
		{Name: "b.json", Kind: log.Deleted, Mtime: k.mtime("b.json"), Was: *digest("0")},
	}, first.Documents)
	k.mustSet("a.json", "2")
	k.reopen()
	again, err := changeNow(t, k.Store, ask)
	require.NoError(t, err)
	require.Equal(t, change.Result{Revision: first.Revision, Replayed: true}, again)
	require.Equal(t, "2", k.text("a.json"))

	for name, other := range map[string][]change.Document{
		"text":    {{Name: "a.json", File: []byte("3"), Base: digest("0")}, {Name: "b.json"}},
		"base":    {{Name: "a.json", File: []byte("1")}, {Name: "b.json"}},
		"fewer":   {{Name: "a.json", File: []byte("1"), Base: digest("0")}},
		"keep":    {{Name: "a.json", File: []byte("1"), Base: digest("0")}, {Name: "b.json", Keep: true}},
		"another": {{Name: "a.json", File: []byte("1"), Base: digest("0")}, {Name: "c.json"}},
	} {
		_, err = changeNow(t, k.Store, change.Request{Actor: ask.Actor, Documents: other})
		require.Equal(t, codes.TokenReused, codes.Of(err), name)
	}
	ask.Actor = &access.Actor{Token: "t10"}
	_, err = changeNow(t, k.Store, ask)
	require.Equal(t, codes.Conflict, codes.Of(err))
	ask.Actor = &access.Actor{Token: "t"}
	_, err = changeNow(t, k.Store, ask)
	require.Equal(t, codes.Conflict, codes.Of(err), "a token that another begins with")
}

// A change without effect is not in the log, and neither is its token: asked for again, it happens
// as if it came for the first time, and no one can tell the difference.
func TestAChangeWithoutEffectIsMadeWhenAskedForAgain(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "1"})
	ask := change.Request{Actor: &access.Actor{Token: "t1"}, Documents: []change.Document{write("a.json", "1")}}
	r, err := changeNow(t, k.Store, ask)
	require.NoError(t, err)
	require.Zero(t, r)
	k.mustSet("a.json", "2")
	r, err = changeNow(t, k.Store, ask)
	require.NoError(t, err)
	require.False(t, r.Replayed)
	require.Equal(t, "1", k.text("a.json"))
	again, err := changeNow(t, k.Store, ask)
	require.NoError(t, err)
	require.Equal(t, change.Result{Revision: r.Revision, Replayed: true}, again)
}
