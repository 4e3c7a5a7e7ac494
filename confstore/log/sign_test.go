package log_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
)

func TestVersionsSayWhoMadeThemIfTheirChangeDoesNot(t *testing.T) {
	b := newBed(t)
	defer b.close()
	ada := log.By{Author: "ada", Origin: "file", Commit: "c1", Comment: "why", Token: "t", Peer: "p", Time: 5}
	bob := log.By{Author: "bob", Origin: "file", Time: 7}
	made := func(list ...log.By) (change log.By, each []log.By) {
		c := log.Change{By: log.By{Time: 3}}
		names := []string{"a.json", "b.json", "c.json"}
		for i := range list {
			v := set(names[i], "1").Versions[0]
			v.By = &list[i]
			c.Versions = append(c.Versions, v)
		}
		c.Sign()
		b.commit(c)
		m, err := b.log.Changes(t.Context(), 0, 1)
		require.NoError(t, err)
		for i := range list {
			versions, err := b.log.Versions(t.Context(), names[i], 0, 1)
			require.NoError(t, err)
			who, err := b.log.Who(t.Context(), &versions[0], &m[0])
			require.NoError(t, err)
			each = append(each, who)
		}
		return m[0].By, each
	}
	change, each := made(ada, ada)
	require.Equal(t, ada, change)
	require.Equal(t, []log.By{ada, ada}, each)
	change, each = made(ada, ada, bob)
	require.Equal(t, log.By{Origin: "file", Time: 7}, change)
	require.Equal(t, []log.By{ada, ada, bob}, each)
	none := log.Change{By: bob}
	none.Sign()
	require.Equal(t, bob, none.By)
}
