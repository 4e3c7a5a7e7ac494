package token

import (
	"encoding/json"
	"slices"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/kv"
)

// What someone has asked for can wait for another person for days. By then the token or the session that
// proved who asked may be known to be stolen; another one of the same name must not stand for it. So an
// [access.Identity] says what it was proved by, and that is asked here.

// disownedPrefix begins the keys of the sessions that others have ended, or their owner with all of theirs.
// That a session is gone says nothing: people sign out.
const disownedPrefix = "ended/"

// mostDisowned is how many such sessions of a name are kept, the newest: more than changes of one name wait.
const mostDisowned = 200

// proofs judge by what identities were proved.
type proofs struct {
	tokens *Tokens
}

// Renewed is someone who was proved to be that some time ago, with the groups that the proof has now; nil:
// the token has ended, or the session was taken from them, or it is of another provider. That a session
// is over does not matter. Of who was proved by neither, it is the same.
func (p proofs) Renewed(id *access.Identity) *access.Identity {
	if id.Session != "" && slices.Contains(p.disowned(id.Name), id.Session) || id.Issuer != "" && id.Issuer != p.tokens.cfg.Sessions.Issuer {
		return nil
	}
	if id.Token == "" {
		return id
	}
	r := p.tokens.record(id.Token)
	if r == nil || policy.ByToken+r.Name != id.Name {
		return nil
	}
	now := *id
	now.Groups = r.Groups
	return &now
}

// Holds reports whether someone who was let in still would be, as far as it was by a token or a session.
func (p proofs) Holds(id *access.Identity) bool {
	if id.Session != "" {
		if _, ok := p.tokens.SessionUntil(id.Session); !ok {
			return false
		}
	}
	return p.Renewed(id) != nil
}

// disowned are the sessions of a name that count for nothing that was asked for in them.
func (p proofs) disowned(name string) (ids []string) {
	if e := p.tokens.store.Get(kv.AccessNamespace, disownedPrefix+name); e != nil && !over(e, p.tokens.cfg.Clock) {
		_ = json.Unmarshal(e.Value.Data, &ids)
	}
	return ids
}

// disown has sessions, which are all of one name, count for nothing that was asked for in them, unless
// others of that name come to it meanwhile.
func (p proofs) disown(gone []kept) kv.Txn {
	same := p.tokens.same(disownedPrefix + gone[0].Who)
	ids := p.disowned(gone[0].Who)
	for _, k := range gone {
		ids = append(ids, k.id)
	}
	value, _ := json.Marshal(ids[max(0, len(ids)-mostDisowned):]) // it never fails
	put := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: same.Key, TTL: p.tokens.cfg.Waiting, Value: kv.Value{Type: kv.JSON, Data: value}}
	return kv.Txn{If: []kv.Compare{same}, Then: []kv.Op{put}}
}
