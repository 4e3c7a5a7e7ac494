package clock

const (
	Set      = set
	MostEras = mostEras
)

// Eras is how many of them r remembers.
func (r *Record) Eras() int { return len(r.eras) }
