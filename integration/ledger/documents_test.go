package ledger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// sound is a record in which every promise was kept: two watches, of which one was resumed.
func sound() *Recorded {
	r := &Recorded{Together: []string{"x", "y"}, Served: map[string]string{}}
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
	r.Acknowledged = all
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
}
