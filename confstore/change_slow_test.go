//go:build !race || soak

package confstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/change"
)

// More than one transaction takes.
func TestALargeChangeIsOneRevision(t *testing.T) {
	k := newMemKit(t, nil)
	var list []change.Document
	for i := range 1000 {
		list = append(list, write(fmt.Sprintf("dir%d/%03d.json", i%7, i), fmt.Sprintf(`{"i":%d,"text":%q}`, i, strings.Repeat("x", i%50*200))))
	}
	r, err := changeNow(t, k.Store, change.Request{Documents: list})
	require.NoError(t, err)
	require.Len(t, k.next().Changes, 1000)
	for _, d := range list {
		known, err := k.writer.log.Document(d.Name)
		require.NoError(t, err)
		require.Equal(t, r.Revision, known.Revision)
		require.Equal(t, string(d.File), k.file(d.Name))
	}
	k.none()
	held := k.Store.cfg.Documents.Held()
	require.Zero(t, k.Store.cfg.Queues.Held())
	k.reopen()
	require.Equal(t, held, k.Store.cfg.Documents.Held())
	require.Len(t, k.Snapshot().Names(), 1000)
	k.none()

	list = append(list[:999], write("dir0/bad.json", "{"))
	for i := range list[:999] {
		list[i].File = []byte("2")
	}
	_, err = changeNow(t, k.Store, change.Request{Documents: list})
	require.Equal(t, codes.BadJSON, codes.Of(err))
	k.none()
}
