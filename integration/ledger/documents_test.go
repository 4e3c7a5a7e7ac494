package ledger

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// sound is a record in which every promise was kept: two watches, of which one was resumed, and two
// followers, of which one began anew and one sees even numbers only.
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
	r.Followers = []Follower{
		{Name: "a", Shown: []Shown{{}, {Version: 11, Contents: "1"}, {Version: 14, Contents: "4"}, {Resumed: true}, {Version: 14, Contents: "4"}, {Version: 17, Contents: "7"}, {Version: 18, Contents: "8"}, {Version: 20, Contents: "4"}}},
		{Name: "x", Part: func(contents string) string { return contents + "!" }, Good: even, Shown: []Shown{{Contents: "0!"}, {Contents: "6!"}}},
	}
	return r
}

func even(part string) bool { return part == "0!" || part == "6!" }

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

func TestPlantedDefectsOfFollowersAreFound(t *testing.T) {
	for what, plant := range map[string]struct {
		promise string
		defect  func(a, x *Follower)
	}{
		"an older state":                    {Forward, func(a, _ *Follower) { a.Shown[2], a.Shown[1] = a.Shown[1], a.Shown[2] }},
		"an older state after a new start":  {Forward, func(a, _ *Follower) { a.Shown[4] = a.Shown[1] }},
		"a lower version":                   {Forward, func(a, _ *Follower) { a.Shown[5].Version = 13 }},
		"a state that never was":            {Forward, func(a, _ *Follower) { a.Shown[2].Contents = "3" }},
		"a part that never was":             {Forward, func(_, x *Follower) { x.Shown[0].Contents = "0" }},
		"a part that is not good":           {Forward, func(_, x *Follower) { x.Shown[0].Contents = "3!" }},
		"absence where there was something": {Forward, func(a, _ *Follower) { a.Shown[6].Contents = "" }},
		"a state twice":                     {Unique, func(a, _ *Follower) { a.Shown[3].Resumed, a.Shown[3].Contents, a.Shown[3].Version = false, "4", 14 }},
		"another state last":                {Converging, func(a, _ *Follower) { a.Shown = a.Shown[:7] }},
		"another part last":                 {Converging, func(_, x *Follower) { x.Shown = x.Shown[:1] }},
		"nothing":                           {Converging, func(_, x *Follower) { x.Shown = nil }},
		"nothing after a new start":         {Converging, func(a, _ *Follower) { a.Shown = append(a.Shown, Shown{Resumed: true}) }},
	} {
		r := sound()
		plant.defect(&r.Followers[0], &r.Followers[1])
		require.Contains(t, r.Judge(), plant.promise, what)
	}
}
