package token

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
)

// Hold keeps a token, which put would write, if by needs approval to make it: then it
// fails with codes.Held.
type Hold func(ctx context.Context, by *access.Actor, put *kv.Op) error

// Await has tokens made only after approval, where hold says so.
func (t *Tokens) Await(hold Hold) { t.hold.Store(&hold) }

// held returns the number under which a token waits for approval; 0: it needs none.
func (t *Tokens) held(ctx context.Context, by *access.Actor, put *kv.Op) (int64, error) {
	hold := t.hold.Load()
	if hold == nil {
		return 0, nil
	}
	err := (*hold)(ctx, by, put)
	if held := (*access.Held)(nil); errors.As(err, &held) {
		return held.Number, nil
	}
	return 0, err
}

// MayMake refuses a token, by what is kept of it, that by may not make.
func (t *Tokens) MayMake(by *access.Actor, kept []byte) error {
	r, err := readRecord(kept)
	if err != nil {
		return err
	}
	return t.mayMake(context.Background(), by, r.identity())
}

// mayMake refuses a token for whose if its bearer could come to have more than by has, now or when
// a role is changed, or act in the name of another identity.
func (t *Tokens) mayMake(ctx context.Context, by *access.Actor, whose *access.Identity) error {
	if err := t.mayHandle(by, whose); err != nil {
		return err
	}
	id := by.Proved()
	if t.judge.Load() == nil || id == nil || id.Administrator() {
		return nil
	}
	for _, g := range whose.Groups {
		if !slices.Contains(id.Groups, g) {
			return codes.Errorf(codes.Forbidden, "the group %.40q: you are not in it, so only an administrator makes a token that is", g)
		}
	}
	if whose.Name == id.Name {
		return nil
	}
	name := strings.TrimPrefix(whose.Name, policy.ByToken)
	taken := codes.Errorf(codes.Forbidden, "%s is the name of a token that someone else made, or was while the audit has lines about it: take another one, or ask an administrator", whose.Name)
	for there, err := range t.all(ctx) {
		switch {
		case err != nil:
			return err
		case there.Name == name && there.By != id.Name:
			return taken
		}
	}
	if !t.names.free(name, id) { // asked last: a token that is revoked meanwhile leaves its name
		return taken
	}
	return nil
}

// Describe says whose a token is, by what is kept of it.
func (t *Tokens) Describe(kept []byte) string {
	r, err := readRecord(kept)
	if err != nil {
		return "a token"
	}
	text := "a token for " + policy.ByToken + r.Name
	if len(r.Groups) > 0 {
		text += " in the groups " + strings.Join(r.Groups, ", ")
	}
	return text
}

func readRecord(kept []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(kept, r); err != nil {
		return nil, codes.Errorf(codes.Internal, "what is kept of a token: %w", err)
	}
	return r, nil
}
