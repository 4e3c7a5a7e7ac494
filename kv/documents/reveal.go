package documents

import "confcenter/kv"

// Reveal returns events with what reveal makes of the text of each document; it returns the text
// itself where there is nothing to reveal. Events and entries are others', too, and stay as they are.
func Reveal(events []kv.Event, reveal func(text []byte) []byte) []kv.Event {
	one := func(e *kv.Entry) *kv.Entry {
		if e == nil || len(e.Value.Data) == 0 {
			return e
		}
		text := reveal(e.Value.Data)
		if len(text) > 0 && &text[0] == &e.Value.Data[0] {
			return e
		}
		revealed := *e
		revealed.Value.Data = text
		return &revealed
	}
	list := make([]kv.Event, len(events))
	for i, e := range events {
		e.Entry, e.Prev = one(e.Entry), one(e.Prev)
		list[i] = e
	}
	return list
}
