//go:build !race

package log_test

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTheLogAgreesWithAList(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := &history{bed: *newBed(t), r: r, past: map[string][]kept{}}
		defer h.close()
		r.Repeat(map[string]func(*rapid.T){
			"small":  func(*rapid.T) { h.change(1, 3) },
			"small2": func(*rapid.T) { h.change(1, 3) },
			"large":  func(*rapid.T) { h.change(60, 140) },
			"again":  func(*rapid.T) { h.open() },
			"":       func(*rapid.T) { h.compare() },
		})
	})
}
