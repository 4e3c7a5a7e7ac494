package confstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
)

// ringOf has several keys, of which the last seals.
func ringOf(ids ...string) *secret.Ring {
	keys := make([]secret.Key, len(ids))
	for i, id := range ids {
		keys[i] = secret.Key{ID: id, Made: int64(i)}
		copy(keys[i].Key[:], id)
	}
	return secret.NewRing(keys)
}

// resealKit is a kit with files sealed by key a, whose key can be changed.
func resealKit(t *testing.T) (*kit, *atomic.Pointer[secret.Ring]) {
	k := newKit(t, map[string]string{"_meta.json": `{"conf_inherit":{"heir.json":"a.json"}}`, "heir.json": `{"own":1}`, "plain.json": `{"n":1}`})
	require.NoError(t, k.Close())
	ring := &atomic.Pointer[secret.Ring]{}
	ring.Store(ringOf("a"))
	k.cfg.Ring = ring.Load
	k.open()
	_, err := k.set(SetRequest{Name: "a.json", Contents: []byte("{ \"pw\" :\t{\"$seal\": \"" + plain + "\"}, \"n\":1 }\r\n"), Exact: true})
	require.NoError(t, err)
	k.next()
	return k, ring
}

func revealed(ring *secret.Ring, text string) string {
	return string(ring.AppendRevealed(nil, []byte(text), func(string) bool { return true }))
}

// Programs, people and watches see what they saw; what is different is the key, in the file, in what
// inherits it, and in a version of its own.
func TestAFileIsSealedAnewWithoutAnybodyBeingTold(t *testing.T) {
	k, ring := resealKit(t)
	require.Equal(t, []string{"a.json"}, k.SealedAfter("", 10))
	require.Empty(t, k.SealedAfter("a.json", 10))
	n, err := k.Reseal(t.Context(), "a.json", nil)
	require.NoError(t, err)
	require.Zero(t, n, "it is by the newest key")

	ring.Store(ringOf("a", "b"))
	before, mtime, file := k.Snapshot().Node("heir.json").Mtime(true), k.mtime("a.json"), fileText(t, k, "a.json")
	told := k.Revisions().Revision()
	watched := follow.Request{Filter: kv.Filter{NS: documents.Resolved, Text: "heir.json", Exact: true}, From: told, Past: true}
	n, err = k.Reseal(t.Context(), "a.json", &access.Actor{Origin: access.Server, Comment: "a new key"})
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	k.none()
	require.Equal(t, before, k.Snapshot().Node("heir.json").Mtime(true))
	anew := fileText(t, k, "a.json")
	require.Equal(t, revealed(ring.Load(), file), revealed(ring.Load(), anew), "every blank stays")
	require.Contains(t, k.merged("heir.json"), "$secret:v1:b:")
	uses := secret.Uses{}
	k.CountSealed("a.json", uses)
	require.Equal(t, secret.Uses{"b": 1}, uses)
	require.NotContains(t, anew+k.text("a.json")+k.merged("heir.json"), "$secret:v1:a:")

	changes, err := k.Revisions().ChangesOf(t.Context(), []kv.Filter{watched.Filter, {NS: documents.Own}}, told, 1<<20)
	require.NoError(t, err)
	require.Empty(t, changes, "who reads it back is not told either")
	d, err := k.writer.log.Document("a.json")
	require.NoError(t, err)
	require.Equal(t, int64(2), d.N)
	v, err := k.writer.log.Version(t.Context(), "a.json", 2)
	require.NoError(t, err)
	require.True(t, v.Resealed)

	k.reopen()
	require.Equal(t, mtime, k.mtime("a.json"), "nor after a start")
	require.Equal(t, anew, fileText(t, k, "a.json"))
	k.none()

	k.mustSet("a.json", strings.Replace(k.text("a.json"), `"n":1`, `"n":2`, 1))
	require.Greater(t, k.mtime("a.json"), mtime, "what comes after is told as ever")
	changes, err = k.Revisions().ChangesOf(t.Context(), []kv.Filter{{NS: documents.Own}}, told, 1<<20)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Contains(t, string(changes[0].Events[0].Prev.Value.Data), "$secret:v1:b:")
}

func fileText(t testing.TB, k *kit, name string) string {
	text, err := k.ReadFile(name, anySize)
	require.NoError(t, err)
	return string(text)
}

// A write that is made while a file is sealed anew stands.
func TestSealingAnewUndoesNoWrite(t *testing.T) {
	k, ring := resealKit(t)
	ring.Store(ringOf("a", "b"))
	old := fileText(t, k, "a.json")
	k.put("a.json", strings.Replace(old, `"n":1`, `"n":7`, 1)) // by hand, and not taken in yet
	_, err := k.Reseal(t.Context(), "a.json", nil)
	if err != nil {
		require.Equal(t, codes.Conflict, codes.Of(err))
	}
	k.Reload()
	require.Contains(t, k.text("a.json"), `"n":7`)
	_, err = k.Reseal(t.Context(), "a.json", nil)
	require.NoError(t, err)
	require.Contains(t, k.text("a.json"), `"n":7`)
	require.Contains(t, k.text("a.json"), "$secret:v1:b:")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for id := 0; ; id++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			ring.Store(ringOf("a", "b", fmt.Sprint("c", id)))
			if _, err := k.Reseal(ctx, "a.json", nil); err != nil && codes.Of(err) != codes.Conflict && codes.Of(err) != codes.NotFound {
				done <- err
				return
			}
		}
	}()
	for n := range 50 {
		k.mustSet("a.json", fmt.Sprintf(`{"pw":{"$seal":"%s"},"n":%d}`, plain, 100+n))
		require.Equal(t, fmt.Sprintf(`{"pw":"","n":%d}`, 100+n), withoutMarks(k.text("a.json")))
	}
	_, err = changeNow(t, k.Store, change.Request{Documents: []change.Document{{Name: "a.json"}}})
	require.NoError(t, err)
	close(stop)
	require.NoError(t, <-done)
	require.True(t, k.Snapshot().Node("a.json").Deleted(), "what was deleted does not come back")
}

func withoutMarks(text string) string {
	begin := strings.Index(text, "$secret:")
	end := begin + strings.IndexByte(text[begin:], '"')
	return text[:begin] + text[end:]
}

// nobodyMay refuses every change, and has every one wait that is not refused.
type nobodyMay struct{}

func (nobodyMay) Marked(string) bool { return true }
func (nobodyMay) Hold(*change.Held) error {
	return codes.Errorf(codes.Held, "somebody has to approve")
}

func TestSealingAnewNeedsNobodysApproval(t *testing.T) {
	k, ring := resealKit(t)
	require.NoError(t, k.Close())
	k.cfg.Approval = nobodyMay{}
	k.cfg.Check = func(string, []byte, []byte, *access.Actor) error {
		return codes.Errorf(codes.Forbidden, "nothing may change")
	}
	k.open()
	ring.Store(ringOf("a", "b"))
	n, err := k.Reseal(t.Context(), "a.json", &access.Actor{Identity: &access.Identity{Name: "token:a"}})
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Contains(t, k.text("a.json"), "$secret:v1:b:")
}
