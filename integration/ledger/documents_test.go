package ledger

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// sound is a record in which every promise was kept: two watches, of which one was resumed.
func sound() *Recorded {
	r := &Recorded{Together: [][]string{{"x", "y"}}, Alike: [][]string{{"x", "y"}}, Served: map[string]string{}}
	var all []Told
	for i := range 10 {
		t := Told{Revision: int64(10 + 3*i), Changes: map[string]string{"a": fmt.Sprint(i)}}
		if i%3 == 0 {
			t.Changes = map[string]string{"x": fmt.Sprint(i), "y": fmt.Sprint(i)}
		}
		for name, contents := range t.Changes {
			r.Served[name] = contents
		}
		all = append(all, t)
	}
	back := Told{Revision: 40, Changes: map[string]string{"a": "4", "x": "3", "y": "3"}} // as at 22
	maps.Copy(r.Served, back.Changes)
	all = append(all, back)
	r.Acknowledged = append(r.Acknowledged, all...)
	r.Acknowledged = append(r.Acknowledged, Told{Changes: map[string]string{"a": "1"}}) // at some revision
	r.Returns = []Return{{Revision: 40, To: 23}}
	resumed := append(append([]Told{}, all[:5]...), Told{Revision: 23}, Told{Revision: 23, Resumed: true})
	r.Histories = []History{{From: 9, Told: append([]Told{}, all...)}, {From: 9, Told: append(resumed, all[5:]...)}}
	return r
}

func TestASoundRecordIsFoundSound(t *testing.T) { require.Empty(t, sound().Judge()) }

// Each promise that is broken is found by its name.
func TestPlantedDefectsAreFound(t *testing.T) {
	for promise, plant := range map[string]func(r *Recorded){
		Ordered: func(r *Recorded) {
			told := r.Histories[0].Told
			told[2], told[3] = told[3], told[2]
		},
		Unique: func(r *Recorded) {
			told := r.Histories[0].Told
			r.Histories[0].Told = append(told[:4:4], told[3:]...)
		},
		Reliable: func(r *Recorded) {
			told := r.Histories[0].Told
			r.Histories[0].Told = append(told[:4:4], told[5:]...)
		},
		Atomic: func(r *Recorded) {
			r.Histories[0].Told[3] = Told{Revision: r.Histories[0].Told[3].Revision, Changes: map[string]string{"x": "3"}}
		},
		Resumable: func(r *Recorded) {
			told := r.Histories[1].Told
			r.Histories[1].Told = append(told[:7:7], told[8:]...)
		},
		Bookmarked: func(r *Recorded) { r.Histories[1].Told[5].Revision = 25 },
		Durable:    func(r *Recorded) { r.Served["a"] = "7" },
	} {
		r := sound()
		plant(r)
		require.Contains(t, r.Judge(), promise)
	}
	r := sound()
	r.Acknowledged = append(r.Acknowledged, Told{Changes: map[string]string{"a": "lost"}})
	require.Contains(t, r.Judge(), Reliable, "a write that nobody was told of")
	r = sound()
	r.Acknowledged = append(r.Acknowledged, Told{Revision: 16, Changes: map[string]string{"a": "1"}})
	require.Contains(t, r.Judge(), Reliable, "told at another revision than it was answered with")
	r = sound()
	r.Returns[0].Revision = 41
	require.Contains(t, r.Judge(), Reliable, "a rollback that nobody was told of")
	r = sound()
	r.Returns = append(r.Returns, Return{Revision: 28, To: 25, Name: "a"})
	require.Empty(t, r.Judge(), "a rollback of one document")
	r.Returns[1].Name = "x"
	require.Contains(t, r.Judge(), Atomic, "a rollback of one document that has not gone back")
}

// A change that is half made is found even if all watches are told the same of it.
func TestHalfAChangeIsFound(t *testing.T) {
	for what, plant := range map[string]func(changes map[string]string){
		"documents of an apply are missing":          func(changes map[string]string) { delete(changes, "y") },
		"a document of an apply is of another":       func(changes map[string]string) { changes["y"] = "0" },
		"a rollback has left a document as it was":   func(changes map[string]string) { delete(changes, "a") },
		"a rollback has made a document another":     func(changes map[string]string) { changes["a"] = "5" },
		"a rollback has made a document that is new": func(changes map[string]string) { changes["b"] = "1" },
	} {
		r := sound()
		plant(r.Histories[0].Told[10].Changes) // of both watches
		require.Contains(t, r.Judge(), Atomic, what)
	}
}
