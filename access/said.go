package access

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"confcenter/codes"
)

// Limits of what a request says of its actor, in bytes.
const (
	MaxAuthor  = 256
	MaxComment = 4 << 10
	MaxToken   = 128 // like the state store's
)

// Said is what a request says of its actor; all of it may be empty.
type Said struct {
	Author, Comment, Token string
}

// Says returns the actor of a request that comes from a and says more. It is a itself if
// nothing is said. codes.TooLarge, codes.BadRequest: what is said cannot be kept.
func (a *Actor) Says(s Said) (*Actor, error) {
	if s == (Said{}) {
		return a, nil
	}
	for _, err := range [...]error{check("author", s.Author, MaxAuthor, false), check("comment", s.Comment, MaxComment, true), check("token", s.Token, MaxToken, false)} {
		if err != nil {
			return a, err
		}
	}
	var said Actor
	if a != nil {
		said = *a
	}
	said.Author, said.Comment, said.Token = cmp.Or(s.Author, said.Author), cmp.Or(s.Comment, said.Comment), cmp.Or(s.Token, said.Token)
	return &said, nil
}

// check refuses what would do harm where it is shown, for example in a terminal.
func check(what, text string, limit int, lines bool) error {
	switch {
	case len(text) > limit:
		return codes.Errorf(codes.TooLarge, "the %s has %d bytes, and the limit is %d; shorten it; nothing was written", what, len(text), limit)
	case !utf8.ValidString(text):
		return codes.Errorf(codes.BadRequest, "the %s is not UTF-8; nothing was written", what)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !(lines && (r == '\n' || r == '\t')) }):
		return codes.Errorf(codes.BadRequest, "the %s has control characters; leave them out; nothing was written", what)
	}
	return nil
}

// Fitted makes text that no one can be asked to correct fit for an author or comment: in
// one line, and no longer than limit.
func Fitted(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 2*limit)], "\uFFFD"))
	if len(text) > limit {
		const more = "…"
		end := limit - len(more)
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + more
	}
	return strings.TrimSpace(text)
}
