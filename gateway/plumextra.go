package gateway

import (
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// plumTTL is the time to live that a value is written with, which Plum does not have:
// ttl in seconds or ttl_ms. 0 is none.
func plumTTL(members []jsontext.Member) (time.Duration, error) {
	seconds, hasSeconds, err := plumDuration(members, "ttl", time.Second)
	if err != nil {
		return 0, err
	}
	ttl, has, err := plumDuration(members, "ttl_ms", time.Millisecond)
	switch {
	case err != nil:
		return 0, err
	case !has:
		return seconds, nil
	case hasSeconds && seconds != ttl:
		return 0, codes.Errorf(codes.BadTTL, "ttl and ttl_ms differ: give one of them")
	}
	return ttl, nil
}

func plumDuration(members []jsontext.Member, name string, unit time.Duration) (d time.Duration, given bool, err error) {
	m, ok := plumFind(members, name)
	if !ok || m.Kind == jsontext.Null {
		return 0, false, nil
	}
	raw := m.Raw
	if m.Kind == jsontext.String {
		raw = jsontext.Unquote(raw)
	}
	n, ok := jsontext.Int64(raw)
	if most := int64(kv.MaxTTL / unit); !ok || n < 0 || n > most {
		return 0, false, codes.Errorf(codes.BadTTL, "%s must be a whole number from 0 to %d", name, most)
	}
	return time.Duration(n) * unit, true, nil
}

// plumIgnored are the names of members that mean nothing here. Plum takes any, so none
// may be refused; the reply names them, because who misspells one would otherwise
// believe that it did something. Plum's clients look at no more than the status.
type plumIgnored []string

// Bounds of what a reply says of ignored members.
const (
	maxIgnored     = 16
	maxIgnoredName = 64
)

// The members that mean something.
var (
	plumPutMembers   = []string{"value", "type", "ttl", "ttl_ms"}
	plumItemMembers  = append([]string{"key"}, plumPutMembers...)
	plumBatchMembers = []string{"items"}
)

func (names *plumIgnored) add(members []jsontext.Member, known []string) {
	for i := range members {
		key := members[i].Key
		if len(*names) == maxIgnored || slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(name, string(key)) }) {
			continue
		}
		name := strings.ToValidUTF8(string(key[:min(len(key), maxIgnoredName)]), "")
		if !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
}

// append appends the member that names them, if there are any.
func (names plumIgnored) append(b []byte) []byte {
	if len(names) == 0 {
		return b
	}
	for i, name := range names {
		begin := `,"ignored":[`
		if i > 0 {
			begin = ","
		}
		b = appendPlumText(append(b, begin...), name)
	}
	return append(b, ']')
}
