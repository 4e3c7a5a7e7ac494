//go:build !race || soak

package confstore

import (
	"testing"

	"confcenter/internal/atomicfile/atomicfiletest"

	"github.com/stretchr/testify/require"
)

// Whenever the process is killed, or power is lost: what was acknowledged is there, what was not is
// the whole old document or the whole new one, and no edit is undone.
func TestStopAtEachStep(t *testing.T) {
	for name, steps := range map[string]func(*interleaved){
		"set":    func(i *interleaved) { i.set(setA, newText) },
		"exact":  func(i *interleaved) { i.set(exactA, newText) },
		"delete": func(i *interleaved) { i.set(SetRequest{Name: "a.json"}, "") },
		"edit":   func(i *interleaved) { i.edit(`{"v":"edited"}`, 3000) },
		"remove": func(i *interleaved) { i.edit("", 0) },
		"set and put back": func(i *interleaved) {
			i.set(setA, newText)
			i.edit(oldText, 1000)
		},
		"deleted and put back": func(i *interleaved) {
			i.set(SetRequest{Name: "a.json"}, "")
			i.edit(oldText, 1000)
		},
		"edited and set": func(i *interleaved) {
			i.edit(`{"v":"edited"}`, 3000)
			i.set(SetRequest{Name: "a.json", Contents: []byte(newText)}, newText)
		},
		"set twice": func(i *interleaved) {
			i.set(setA, newText)
			i.set(SetRequest{Name: "a.json", Contents: []byte(`{"v":"newer"}`)}, `{"v":"newer"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := &interleaved{rig: newRig(t), may: []string{oldText}}
			i.trace.Rehook(func(op atomicfiletest.Op) error {
				i.note(op.String())
				return nil
			})
			i.log.hook = func(what string) error {
				i.note(what)
				return nil
			}
			steps(i)
			i.synced()
			i.note("synced")
			i.mu.Lock()
			moments := i.moments
			i.mu.Unlock()
			for _, m := range moments {
				require.Contains(t, m.may, m.reopened(t), m.label)
			}
		})
	}
}
