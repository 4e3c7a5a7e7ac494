package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// The server tells paths apart by their spelling, the two forms of a part need
// subscriptions of their own, and the caller may spell a path as he likes.
func TestSpellingsOfAPathDoNotDisturbEachOther(t *testing.T) {
	srv, _, c := real(t, servertest.Options{Files: map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"base.json"}}`, "a.json": `{}`, "base.json": `{"part":1}`,
	}})
	merged, _ := watch(t, c, Query{Name: "a.json", Path: "/part/", Merged: true})
	same, ws := watch(t, c, Query{Name: "a.json", Path: "/part", Merged: true})
	own, wo := watch(t, c, Query{Name: "a.json", Path: "/part"})
	merged.want(`1`)
	same.want(`1`)
	own.want("")
	srv.Write("base.json", `{"part":2}`)
	merged.want(`2`)
	same.want(`2`)
	wo.Stop()
	ws.Stop()
	srv.Write("base.json", `{"part":3}`)
	merged.want(`3`)
	for _, st := range []*states{merged, same, own} {
		st.none()
	}
}

func TestFormsOfAPartNeverShareASpelling(t *testing.T) {
	paths := []string{"/", "//", "a", "a/", "/a", "/a/", "/a//"}
	for _, one := range paths {
		for _, other := range paths {
			merged, own := feedKey{"x", one, true}.wirePath(), feedKey{"x", other, false}.wirePath()
			require.NotEqual(t, merged, own)
			require.NotEmpty(t, merged, "that would be the whole document")
			require.NotEmpty(t, own)
		}
	}
}
