package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// A transaction of which it is not known whether it took effect did: what it changed is served
// before anything is planned on top of it.
func TestWhatWasInDoubtIsServedBeforeTheNextWrite(t *testing.T) {
	for name, next := range map[string]func(*rig){
		"a write": func(r *rig) {
			_, err := setNow(r.t, r.store, SetRequest{Name: "b.json", Contents: []byte("1")})
			require.NoError(r.t, err)
		},
		"an edit": func(r *rig) {
			require.NoError(r.t, r.mem.Put("/srv/conf/b.json", []byte("1"), noon))
			r.store.Reload()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.log.doubt = codes.Errorf(codes.Timeout, "planted")
			_, err := setNow(t, r.store, setA)
			require.Equal(t, codes.Timeout, codes.Of(err))
			r.log.doubt = nil
			next(r)
			check := func(s *Store) {
				require.Equal(t, newText, textOf(s.Snapshot().Node("a.json"), false))
				require.Equal(t, "1", textOf(s.Snapshot().Node("b.json"), false))
				require.Empty(t, s.Problems())
			}
			(&kit{t: t, Store: r.store}).inside(func() { r.store.intake.retryPlacing() })
			check(r.store)
			m := r.left("", 1)
			s, err := Open(m.cfg)
			require.NoError(t, err)
			defer s.Close()
			check(s)
		})
	}
}
