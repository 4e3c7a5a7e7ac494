package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/codes"
)

// The kinds of identities, each with how it is proved. An identity's name begins with its kind.
const (
	ByToken    = "token:"    // a token that this server has made
	ByCert     = "cert:"     // a client certificate, by its subject
	AsPerson   = "person:"   // signed in at an OpenID provider, by the address in lower case
	ByListener = "listener:" // nothing but the listener or network it comes from
)

const ofGroup = "group:"

// MaxName is the length of an identity's name, in bytes with its kind.
const MaxName = 512

// Administrators is [access.Administrators].
const Administrators = access.Administrators

// CheckIdentity reports whether name can be an identity's. codes.BadRequest: it cannot.
func CheckIdentity(name string) error {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case len(name) > MaxName:
		return codes.Errorf(codes.TooLarge, "the name has %d bytes, and the limit is %d", len(name), MaxName)
	case !slices.Contains([]string{ByToken, ByCert, AsPerson, ByListener}, kind+":") || rest == "":
		return codes.Errorf(codes.BadRequest, "%q names no one; a name is one of token:NAME, cert:SUBJECT, person:ADDRESS and listener:NAME", name)
	case strings.Contains(rest, "*"), strings.ContainsFunc(rest, unicode.IsControl), !utf8.ValidString(rest):
		return codes.Errorf(codes.BadRequest, "%q: a name has no * and no control characters, and is UTF-8", name)
	case kind+":" == ByToken:
		return CheckName(rest)
	case kind+":" == AsPerson && strings.ContainsAny(rest, ` ,"`), kind+":" != ByCert && strings.ContainsFunc(rest, unseen):
		return codes.Errorf(codes.BadRequest, "%q has characters that such a name has not: of people blanks, commas and quotes, and those that no one can see", name)
	case kind+":" == AsPerson && strings.ContainsFunc(rest, passesForASCII):
		return codes.Errorf(codes.BadRequest, "%q has a letter that would become another one in lower case", name)
	}
	return nil
}

// CheckName reports whether a token, or a group of tokens, can be called name. It is shown in
// histories and in the audit beside what is said of a change, and must not pass for that or for
// another name. What authorities and providers call someone is theirs to say.
func CheckName(name string) error {
	for word := range strings.SplitSeq(name, " ") {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
			return codes.Errorf(codes.BadRequest, "%q: a name of a token or a group has letters, digits, . _ - / : @ + and single blanks between them", name)
		}
	}
	return nil
}

func plain(r rune) bool {
	return strings.ContainsRune("._-/:@+", r) || unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) && !unseen(r)
}

// unseen reports whether r is one of those by which two names can look the same.
func unseen(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Fold is the name that is compared where text was written. Providers and people write the address
// of one person in upper and lower case as they please.
func Fold(text string) string {
	if address, ok := strings.CutPrefix(text, AsPerson); ok {
		return AsPerson + strings.ToLower(address)
	}
	return text
}

// passesForASCII reports whether a letter would be one of ASCII in lower case, as the sign for Kelvin
// would be a k: the person who has such an address is someone else.
func passesForASCII(r rune) bool {
	return r > unicode.MaxASCII && unicode.ToLower(r) <= unicode.MaxASCII
}

// who is one entry of a rule's list of those it is about.
type who struct {
	text  string // with the kind
	many  bool   // text is the beginning of names
	group bool   // text is a group's name, without the kind
}

func parseWho(text string) (who, error) {
	name, many := strings.CutSuffix(text, "*")
	w := who{text: Fold(name), many: many}
	if len(text) > MaxName {
		return w, codes.Errorf(codes.TooLarge, "%q… has %d bytes, and the limit is %d", text[:32], len(text), MaxName)
	}
	if name == "" && many {
		return w, nil
	}
	group, isGroup := strings.CutPrefix(name, ofGroup)
	if isGroup {
		w.text, w.group = group, true
		if group == "" || many || strings.Contains(group, "*") {
			return w, codes.Errorf(codes.BadRequest, "%q: write the whole name of one group", text)
		}
		return w, nil
	}
	whole := name
	if many {
		whole += "x" // stands for the rest
	}
	return w, CheckIdentity(whole)
}

func (w who) is(id *access.Identity) bool {
	switch {
	case w.group:
		return slices.Contains(id.Groups, w.text)
	case w.many:
		return strings.HasPrefix(id.Name, w.text)
	}
	return id.Name == w.text
}
