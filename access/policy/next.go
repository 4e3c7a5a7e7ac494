package policy

import (
	"sort"
	"strings"
)

// Next returns the first name, from one on in the order of bytes, with which all of the verbs v are
// allowed; ok is false if there is none. It asks the patterns alone, so the name need not be that of
// anything: what may be read is found among any number of things that may not, without a look at these.
func (p *Permits) Next(v Verb, c Class, from string) (name string, ok bool) {
	if p == nil {
		return "", false
	}
	t := &p.classes[c]
	for name, ok = from, true; ok && t.of([]byte(name))&v != v; name, ok = t.turn(name) {
	}
	return name, ok
}

// turn is the first name behind one at which patterns may say something else than there: where one
// begins, behind a single name that one is about, or behind all names that begin as one does.
func (t *table) turn(name string) (next string, ok bool) {
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].text > name })
	if i < len(t.nodes) {
		next, ok = t.nodes[i].text, true
	}
	sooner := func(text string, is bool) {
		if is && (!ok || text < next) {
			next, ok = text, true
		}
	}
	for i--; i >= 0; i = int(t.nodes[i].parent) {
		switch n := &t.nodes[i]; {
		case !n.many && n.text == name:
			sooner(name+"\x00", true)
		case n.many && strings.HasPrefix(name, n.text):
			sooner(behind(n.text))
		}
	}
	return next, ok
}

// behind is the first name behind all that begin with text; ok is false if there is none.
func behind(text string) (name string, ok bool) {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] < 0xFF {
			return text[:i] + string([]byte{text[i] + 1}), true
		}
	}
	return "", false
}
