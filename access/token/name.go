package token

import (
	"encoding/json"
	"iter"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// A name outlives its tokens: histories and the audit go on telling of who had it. So it stays taken
// for all but who made the last of them, for as long as the audit has lines about it.

// namePrefix begins the keys of names that tokens had which have ended, or will end by themselves.
const namePrefix = "name/"

// namesPerToken is how many such names there may be for each token that there may be; it keeps those who
// may make tokens from filling memory with them.
const namesPerToken = 10

// names are the names of tokens that have ended.
type names struct {
	// set at open
	store embedded.Store
	cfg   *Config
}

// pastName is what is kept of such a name.
type pastName struct {
	By string `json:"by"` // who made its last token
}

// keep keeps the name of a token that ends after a while.
func (n *names) keep(r *record, left time.Duration) kv.Op {
	value, _ := json.Marshal(pastName{By: r.By}) // it never fails
	return kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: namePrefix + r.Name, TTL: min(kv.MaxTTL, left+n.cfg.Names), Value: kv.Value{Type: kv.JSON, Data: value}}
}

// free reports whether a token of someone may have a name, as far as ended ones are concerned.
func (n *names) free(name string, id *access.Identity) bool {
	e := n.store.Get(kv.AccessNamespace, namePrefix+name)
	if e == nil || over(e, n.cfg.Clock) {
		return true
	}
	var past pastName
	return json.Unmarshal(e.Value.Data, &past) == nil && past.By == id.Name
}

func (n *names) count() (there, limit int64, err error) {
	there, err = count(n.store, namePrefix)
	return there, namesPerToken * n.cfg.MaxTokens, err
}

// room refuses a token if there are as many names as there may be.
func (n *names) room(by *access.Actor) error {
	there, limit, err := n.count()
	if err == nil && there >= limit && !by.Administrator() {
		return codes.Errorf(codes.Limit, "there are %d names of tokens that have ended, which is the limit: they are free once the audit has no lines about them; ask an administrator for a token", there)
	}
	return err
}

// Ops are what is written when a token is made that put writes, if [Tokens.Unmade] holds.
func (t *Tokens) Ops(put *kv.Op) []kv.Op {
	ops := []kv.Op{*put, putMade(strings.TrimPrefix(put.Key, tokenPrefix))}
	if r, err := readRecord(put.Value.Data); err == nil && put.TTL != 0 {
		ops = append(ops, t.names.keep(r, put.TTL))
	}
	return ops
}

// madeBy are those of all tokens that one of this name has made, and those that these have made, in
// this order. Who made a token is known by name.
func madeBy(name string, all iter.Seq2[Token, error]) (made []Token, err error) {
	children := map[string][]Token{}
	for there, err := range all {
		if err != nil {
			return nil, err
		}
		if by, ok := strings.CutPrefix(there.By, policy.ByToken); ok {
			children[by] = append(children[by], there)
		}
	}
	for names := []string{name}; len(names) > 0; names = names[1:] {
		for _, child := range children[names[0]] {
			made, names = append(made, child), append(names, child.Name)
		}
		delete(children, names[0])
	}
	return made, nil
}
