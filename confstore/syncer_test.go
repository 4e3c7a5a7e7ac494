package confstore

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/confstore/place"
	"confcenter/confstore/snapshot"
	"confcenter/internal/health"
	"confcenter/kv"
)

// The mark of what is durable must not rise to a revision while the syncer knows of some of its
// files only.
func TestFilesOfOneRevisionAreMadeDurableTogether(t *testing.T) {
	s := &syncer{wake: make(chan struct{}, 1)}
	p := &placer{dir: &directory{problems: health.NewProblems(zerolog.Nop(), time.Now)}, syncer: s, owed: map[string]*owedFile{"late.json": {}}}
	p.owed["late.json"].version.Revision = 7
	p.inPlace(place.File{Name: "a.json", Revision: 5}, place.File{Name: "b.json", Revision: 5})
	files, through := s.take()
	require.Equal(t, []place.File{{Name: "a.json", Revision: 5}, {Name: "b.json", Revision: 5}}, files)
	require.Equal(t, kv.Revision(5), through)
	p.inPlace(place.File{Name: "c.json", Revision: 7})
	_, through = s.take()
	require.Equal(t, kv.Revision(6), through, "late.json is not in place")
	p.inPlace(place.File{Name: "late.json", Revision: 7})
	_, through = s.take()
	require.Equal(t, kv.Revision(7), through)
}

// A push does not wait for the marks on the disk, however the change was made.
func TestFilesAreHandedOverWhenTheirChangeIsPublished(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`})
	through := func() kv.Revision {
		k.syncer.mu.Lock()
		defer k.syncer.mu.Unlock()
		return k.syncer.through
	}
	var published, handedOver kv.Revision
	defer k.Subscribe(func(b *snapshot.Batch) { published, handedOver = b.Changes[0].Node.Revision(false), through() })()
	for what, change := range map[string]func(){
		"a request": func() { k.mustSet("a.json", `2`) },
		"an edit":   func() { k.put("a.json", `3`) },
	} {
		change()
		k.next()
		k.inside(func() {}) // the step has ended
		require.Positive(t, published, what)
		require.Less(t, handedOver, published, what)
		require.GreaterOrEqual(t, through(), published, what)
	}
}
