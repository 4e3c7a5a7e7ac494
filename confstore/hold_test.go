package confstore

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/change"
)

// keeper is an Approval that marks what is below live.
type keeper struct {
	held []*change.Held
	full bool
}

func (a *keeper) Marked(name string) bool { return strings.HasPrefix(name, "live/") }

func (a *keeper) Hold(h *change.Held) error {
	if a.full {
		return codes.Errorf(codes.Limit, "too many")
	}
	a.held = append(a.held, h)
	return codes.Errorf(codes.Held, "held as %d", len(a.held))
}

var zoe = &access.Actor{Origin: access.OverTCP, Identity: &access.Identity{Name: "token:zoe"}}

func keptKit(t *testing.T, files map[string]string) (*kit, *keeper) {
	k := newKit(t, files)
	require.NoError(t, k.Close())
	a := &keeper{}
	ring := testRing("k")
	k.cfg.Approval, k.cfg.Ring = a, func() *secret.Ring { return ring }
	k.open()
	return k, a
}

// TestNobodyChangesFilesByNamesThatLinksGiveThem: their right, and what is marked, is asked by the name
// in the request, and the file has another one.
func TestNobodyChangesFilesByNamesThatLinksGiveThem(t *testing.T) {
	k, a := keptKit(t, map[string]string{"live/a.json": `{"a":1}`, "b/c.json": `1`})
	require.NoError(t, os.Symlink("../live", k.path("b/link")))
	require.NoError(t, os.Symlink("../b/link", k.path("b/again")))
	require.NoError(t, os.Symlink("../live/a.json", k.path("b/file.json")))
	k.all("b/again/a.json", "b/file.json", "b/link/a.json")
	onDisk := func(name string) string {
		data, err := k.ReadFile(name, anySize)
		require.NoError(t, err)
		return string(data)
	}
	for _, name := range []string{"b/link/a.json", "b/link/n.json", "b/again/a.json", "b/link/deep/n.json"} {
		for _, doc := range []change.Document{write(name, `{"a":2}`), {Name: name}} {
			if doc.File == nil && strings.HasSuffix(name, "n.json") {
				continue
			}
			_, err := changeNow(t, k.Store, change.Request{Actor: zoe, Documents: []change.Document{write("b/c.json", `2`), doc}})
			require.Equal(t, codes.Forbidden, codes.Of(err), name)
			_, err = changeNow(t, k.Store, change.Request{Actor: zoe, Check: true, Documents: []change.Document{doc}})
			require.Equal(t, codes.Forbidden, codes.Of(err), name)
		}
	}
	require.Equal(t, `{"a":1}`, onDisk("live/a.json"))
	require.Equal(t, `1`, onDisk("b/c.json"))
	require.Empty(t, a.held)

	_, err := changeNow(t, k.Store, change.Request{Actor: zoe, Documents: []change.Document{write("b/file.json", `{"a":2}`)}})
	require.NoError(t, err, "it takes the place of the link")
	require.Equal(t, `{"a":1}`, onDisk("live/a.json"))
	_, err = changeNow(t, k.Store, change.Request{Documents: []change.Document{write("b/link/a.json", `{"a":2}`)}})
	require.NoError(t, err, "where nobody has to prove who they are")
	require.Equal(t, `{"a":2}`, onDisk("live/a.json"))
}

func TestAChangeOfWhatIsMarkedIsHeldAndNotMade(t *testing.T) {
	k, a := keptKit(t, map[string]string{
		"live/a.json": `{"a":1}`, "live/heir.json": `{}`, "base.json": `{"b":1}`, "base2.json": `{"b":2}`, "other.json": `{}`,
		"_meta.json": `{"conf_inherit":{"live/heir.json":"base.json"},"app_profile":{"default":{"app1":"live/a"}}}`,
	})
	meta := func(bases, profiles string) change.Request {
		return change.Request{Documents: []change.Document{write("_meta.json", `{"conf_inherit":{"live/heir.json":"`+bases+`"},"app_profile":{`+profiles+`}}`)}}
	}
	revision := k.cfg.State.Revision()
	for what, c := range map[string]struct {
		req    change.Request
		marked []string
	}{
		"a document":                  {change.Request{Documents: []change.Document{write("live/a.json", `{"a":2}`)}}, []string{"live/a.json"}},
		"a new one":                   {change.Request{Documents: []change.Document{write("live/n.json", `{}`)}}, []string{"live/n.json"}},
		"its end":                     {change.Request{Documents: []change.Document{{Name: "live/a.json"}}}, []string{"live/a.json"}},
		"its layout":                  {change.Request{Documents: []change.Document{write("live/a.json", `{"a": 1}`)}}, []string{"live/a.json"}},
		"what it inherits":            {change.Request{Documents: []change.Document{write("base.json", `{"b":3}`)}}, []string{"live/heir.json"}},
		"from whom it inherits":       {meta("base2.json", `"default":{"app1":"live/a.json"}`), []string{"live/heir.json"}},
		"whose it is":                 {meta("base.json", `"default":{"app1":"other.json"}`), []string{"live/a.json"}},
		"that it is nobody's":         {meta("base.json", ``), []string{"live/a.json"}},
		"that an address has another": {meta("base.json", `"default":{"app1":"live/a.json"},"10.0.0.5":{"app1":"other.json"}`), []string{"live/a.json"}},
		"one of several":              {change.Request{Documents: []change.Document{write("other.json", `{"o":1}`), write("live/a.json", `{"a":2}`), {Name: "base.json", Keep: true}}}, []string{"live/a.json"}},
		"several, one as it is":       {change.Request{Documents: []change.Document{write("live/a.json", `{"a":1}`), write("base.json", `{"b":3}`)}}, []string{"live/heir.json"}},
	} {
		c.req.Actor, a.held = zoe, nil
		c.req.Check = true
		would, err := changeNow(t, k.Store, c.req)
		require.NoError(t, err, what)
		require.Equal(t, c.marked, would.Approval, what)
		require.Empty(t, a.held, what)

		c.req.Check = false
		_, err = changeNow(t, k.Store, c.req)
		require.Equal(t, codes.Held, codes.Of(err), what)
		require.Len(t, a.held, 1, what)
		require.Equal(t, c.marked, a.held[0].Marked, what)
		require.Equal(t, zoe, a.held[0].Actor)
		require.Len(t, a.held[0].Documents, len(c.req.Documents), what)
		for _, d := range a.held[0].Documents {
			require.NotNil(t, d.Base, "%s: it is what it was compared with", what)
		}
	}
	k.none()
	require.Equal(t, revision, k.cfg.State.Revision())
	require.Equal(t, `{"a":1}`, k.text("live/a.json"))

	res, err := k.set(SetRequest{Name: "live/a.json", Contents: []byte(`{"a":2}`), Actor: zoe})
	require.Equal(t, codes.Held, codes.Of(err))
	require.Equal(t, k.Snapshot().Node("live/a.json").Mtime(false), res.Mtime, "the version that there is")
	_, err = k.set(SetRequest{Name: "live/a.json", Actor: zoe})
	require.Equal(t, codes.Held, codes.Of(err))
	a.full = true
	_, err = k.set(SetRequest{Name: "live/a.json", Contents: []byte(`{"a":2}`), Actor: zoe})
	require.Equal(t, codes.Limit, codes.Of(err), "what cannot be held is not made")
	k.none()
}

// What is approved is what was held: the same bytes, unless something has changed meanwhile.
func TestWhatWasHeldCanBeMade(t *testing.T) {
	k, a := keptKit(t, map[string]string{"live/a.json": `{"a":1}`, "other.json": `{}`})
	held := func() change.Request {
		_, err := changeNow(t, k.Store, change.Request{Actor: zoe, Documents: []change.Document{write("live/a.json", `{ "a":2}`), write("other.json", `{}`)}})
		require.Equal(t, codes.Held, codes.Of(err))
		approved := *zoe
		approved.Approver = "token:max"
		h := a.held[len(a.held)-1]
		return change.Request{Documents: h.Documents, Actor: &approved, Approved: h.Marked}
	}
	req, late := held(), held()
	_, err := changeNow(t, k.Store, req)
	require.NoError(t, err)
	data, err := k.ReadFile("live/a.json", anySize)
	require.NoError(t, err)
	require.Equal(t, `{ "a":2}`, string(data))
	_, err = changeNow(t, k.Store, late)
	require.Equal(t, codes.Conflict, codes.Of(err))
}

// No one has seen what has since come to inherit from what was held, or to be marked.
func TestWhatIsApprovedChangesNothingElseThatIsMarked(t *testing.T) {
	k, a := keptKit(t, map[string]string{"base.json": `{"a":1}`, "live/a.json": `{}`, "live/b.json": `{}`,
		"_meta.json": `{"conf_inherit":{"live/a.json":"base.json"}}`})
	_, err := k.set(SetRequest{Name: "base.json", Contents: []byte(`{"a":2}`), Actor: zoe})
	require.Equal(t, codes.Held, codes.Of(err))
	require.Equal(t, []string{"live/a.json"}, a.held[0].Marked)
	approved := *zoe
	approved.Approver = "token:max"
	req := change.Request{Documents: a.held[0].Documents, Actor: &approved, Approved: a.held[0].Marked}
	k.put("_meta.json", `{"conf_inherit":{"live/a.json":"base.json","live/b.json":"base.json"}}`)
	k.next()
	_, err = changeNow(t, k.Store, req)
	require.Equal(t, codes.Conflict, codes.Of(err))
	require.ErrorContains(t, err, "live/b.json")
	k.put("_meta.json", `{"conf_inherit":{"live/a.json":"base.json"}}`)
	k.next()
	_, err = changeNow(t, k.Store, req)
	require.NoError(t, err)
}

func TestWhoIsTrustedNeedsNoApproval(t *testing.T) {
	k, a := keptKit(t, map[string]string{"live/a.json": `{"a":1}`})
	k.put("live/a.json", `{"a":2}`)
	k.next()
	for n, by := range []*access.Actor{nil, {Origin: access.Server}} {
		_, err := k.set(SetRequest{Name: "live/a.json", Contents: []byte{'[', byte('0' + n), ']'}, Actor: by})
		require.NoError(t, err)
		k.next()
	}
	_, err := k.set(SetRequest{Name: "other.json", Contents: []byte(`{}`), Actor: zoe})
	require.NoError(t, err)
	k.next()
	_, err = k.set(SetRequest{Name: "live/a.json", Contents: []byte(`[1]`), Actor: zoe})
	require.NoError(t, err, "it is so already")
	require.Empty(t, a.held)
}

func TestWhatIsHeldIsSealed(t *testing.T) {
	k, a := keptKit(t, nil)
	req := change.Request{Actor: zoe, Documents: []change.Document{write("live/a.json", `{"password":{"$seal":"`+plain+`"}}`)}}
	for range 2 {
		_, err := changeNow(t, k.Store, req)
		require.Equal(t, codes.Held, codes.Of(err))
	}
	require.NotContains(t, string(a.held[0].Documents[0].File), plain)
	require.Contains(t, string(a.held[0].Documents[0].File), "$secret:v1:")
	require.Equal(t, a.held[0].Asked, a.held[1].Asked, "it is known again though it is sealed otherwise")
}
