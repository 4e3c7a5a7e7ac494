package token

import (
	"encoding/json"
	"strings"
	"time"

	"confcenter/kv"
)

// What a restore of the store does with tokens and sessions: a token that was revoked by the end of the
// backup stays so, as of whichever revision the store is restored, and no session is brought back.

// SessionPrefix begins the keys of sessions in [kv.AccessNamespace].
const SessionPrefix = sessionPrefix

// Revocable reports whether an entry is one that is never brought back once it is gone: a token.
func Revocable(ns, key string) bool {
	return ns == kv.AccessNamespace && strings.HasPrefix(key, tokenPrefix)
}

// TokenOf reads an entry as a token that is valid at a time; false: it is none.
func TokenOf(e *kv.Entry, now time.Time) (Token, bool) {
	var r record
	if !Revocable(e.NS, e.Key) || e.Deleted() || json.Unmarshal(e.Value.Data, &r) != nil || r.Expires != 0 && r.Expires <= now.UnixMilli() {
		return Token{}, false
	}
	return Token{ID: strings.TrimPrefix(e.Key, tokenPrefix), Name: r.Name, Groups: r.Groups, Made: r.Made, By: r.By, Expires: r.Expires}, true
}
