package doclog

import (
	"context"

	"confcenter/codes"
	"confcenter/kv"
)

// token is the change that was asked for with a request token.
type token struct {
	Seq   uint64 `json:"seq"`
	Asked Digest `json:"asked"`
	Who   string `json:"who,omitempty"` // was proved to ask
}

// names are the entries by which a change is found.
func (c *Change) names(seq uint64, made Made) []kv.Op {
	ops := []kv.Op{put(changes, changeKey(seq), encode(made))}
	if c.By.Token != "" && c.Asked != (Digest{}) {
		ops = append(ops, put(tokens, c.By.Token, encode(token{seq, c.Asked, c.Who})))
	}
	if c.Source != "" {
		ops = append(ops, put(applied, c.Source, []byte("{}")))
	}
	return ops
}

// Applied is the revision as of which documents were last brought from a source; 0: never.
func Applied(ctx context.Context, l *Log, source string) (kv.Revision, error) {
	page, err := l.store.ListArchive(ctx, kv.List{NS: applied, Prefix: source, Limit: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].Key != source {
		return 0, err
	}
	return page.Entries[0].Mod, nil
}

// NoteApplied notes that all documents that a source brings are what they are to be.
func NoteApplied(ctx context.Context, l *Log, source string) error {
	_, err := l.write(ctx, &kv.Txn{System: true, Then: []kv.Op{put(applied, source, []byte("{}"))}})
	return err
}

// Asked returns the change that who asked for with a token; nil: there is none. codes.TokenReused:
// something other than asked was asked for (if asked is not zero), or by someone other than who.
func (l *Log) Asked(ctx context.Context, text, who string, asked Digest) (*Made, error) {
	page, err := l.store.ListArchive(ctx, kv.List{NS: tokens, Prefix: text, Limit: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].Key != text {
		return nil, err
	}
	var t token
	if err := decode(text, page.Entries[0].Value.Data, &t); err != nil {
		return nil, err
	}
	if asked != (Digest{}) && asked != t.Asked || who != t.Who {
		return nil, codes.Errorf(codes.TokenReused, "the token %q was used for another change; use a new one", text)
	}
	made, err := l.Change(ctx, t.Seq)
	return &made, err
}
