package secret

import "confcenter/internal/jsontext"

// Uses counts sealed values by the data key that seals them.
type Uses map[string]int64

// Count counts the sealed values of valid JSON. What only looks like one is counted, too.
func (u Uses) Count(valid []byte) {
	eachMark(valid, func(_, _ int, mark string) {
		if m, ok := parts(mark); ok {
			u[m.id]++
		}
	})
}

// Others is how many values are sealed by other data keys than id.
func (u Uses) Others(id string) (n int64) {
	for key, values := range u {
		if key != id {
			n += values
		}
	}
	return n
}

// Reseal returns valid JSON with its values sealed by the newest data key, each still where it came
// from, and how many were not before; valid itself if there are none. What cannot be opened stays as
// it is, as does everything if the Ring does not seal.
func (r *Ring) Reseal(valid []byte) (resealed []byte, n int64) {
	if !r.Seals() || !Has(valid) {
		return valid, 0
	}
	done := 0
	eachMark(valid, func(begin, end int, mark string) {
		m, ok := parts(mark)
		if !ok || m.id == r.newest {
			return
		}
		value, err := r.open(m)
		if err != nil {
			return
		}
		resealed = jsontext.AppendQuote(append(resealed, valid[done:begin]...), r.value(m.form, m.origin, value))
		clear(value)
		done = end
		n++
	})
	if n == 0 {
		return valid, 0
	}
	return append(resealed, valid[done:]...), n
}
