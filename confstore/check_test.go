package confstore

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
)

// What may not be in a document comes in by no way: neither by a write nor by a file, which is
// not served, while the version before is.
func TestWhatIsRefusedTakesNothingsPlace(t *testing.T) {
	type change struct{ name, before, contents, by string }
	var seen []change
	k := newKit(t, map[string]string{"a.json": `{"n":1}`})
	require.NoError(t, k.Close())
	k.cfg.Check = func(name string, before, contents []byte, by *access.Actor) error {
		if by != nil {
			seen = append(seen, change{name, string(before), string(contents), by.Name})
		}
		if bytes.Contains(contents, []byte("bad")) {
			return codes.Errorf(codes.Forbidden, "%s must not be bad", name)
		}
		return nil
	}
	k.open()
	ann := &access.Actor{Name: "ann"}
	set := func(name, contents string) error {
		done := make(chan error, 1)
		req := SetRequest{Name: name, Actor: ann}
		if contents != "" {
			req.Contents = []byte(contents)
		}
		require.NoError(t, k.Set(req, func(_ SetResult, err error) { done <- err }))
		return <-done
	}
	require.Equal(t, codes.Forbidden, codes.Of(set("a.json", `{"bad":1}`)))
	require.Equal(t, codes.Forbidden, codes.Of(set("b.json", `{"bad":1}`)))
	require.NoError(t, set("a.json", `{"n":2}`))
	require.NoError(t, set("a.json", `{"n":2}`), "which changes nothing")
	require.NoError(t, set("b.json", `{"n":3}`))
	require.NoError(t, set("b.json", ""))
	require.Equal(t, []change{
		{"a.json", `{"n":1}`, `{"bad":1}`, "ann"},
		{"b.json", "", `{"bad":1}`, "ann"},
		{"a.json", `{"n":1}`, `{"n":2}`, "ann"},
		{"b.json", "", `{"n":3}`, "ann"},
		{"b.json", `{"n":3}`, "", "ann"},
	}, seen)

	k.put("a.json", `{"bad":2}`)
	k.put("c.json", `{"bad":3}`)
	k.Reload()
	k.await("the refusals", func() bool { return k.Snapshot().Node("a.json").Broken() != "" && k.Fault("c.json") != "" })
	text, _ := k.Snapshot().Node("a.json").Contents(false)
	require.JSONEq(t, `{"n":2}`, string(text))
	require.Equal(t, "is refused: c.json must not be bad", k.Fault("c.json"))
	require.Contains(t, k.Snapshot().Node("a.json").Broken(), "is refused: a.json must not be bad")
	k.put("a.json", `{"n":4}`)
	k.Reload()
	k.await("the good file", func() bool { return k.Snapshot().Node("a.json").Broken() == "" })
}
