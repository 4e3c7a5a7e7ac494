package policy

const MostKnown = mostKnown

// Known is of how many identities p knows what they may do.
func Known(p *Policy) (n int) {
	p.known.Range(func(any, any) bool { n++; return true })
	return n
}
