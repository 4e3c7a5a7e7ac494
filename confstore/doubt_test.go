package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// Of a transaction that failed midway no one knows whether it took effect, so nothing is planned on top
// of it: edits are served, and a restart shows what there is.
func TestNothingIsWrittenBehindWhatIsInDoubt(t *testing.T) {
	r := newRig(t)
	r.log.doubt = codes.Errorf(codes.Timeout, "planted")
	_, err := setNow(t, r.store, setA)
	require.Equal(t, codes.Timeout, codes.Of(err))
	r.log.doubt = nil
	_, err = setNow(t, r.store, SetRequest{Name: "c.json", Contents: []byte("1")})
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "restart")
	require.True(t, r.store.Trouble().Restart)
	require.NoError(t, r.mem.Put("/srv/conf/b.json", []byte("1"), noon))
	r.store.Reload()
	require.Equal(t, oldText, textOf(r.store.Snapshot().Node("a.json"), false))
	require.Equal(t, "1", textOf(r.store.Snapshot().Node("b.json"), false))

	m := r.left("", 1)
	s, err := Open(m.cfg)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, newText, textOf(s.Snapshot().Node("a.json"), false), "it took effect")
	require.Equal(t, "1", textOf(s.Snapshot().Node("b.json"), false))
	require.Empty(t, s.Problems())
}
