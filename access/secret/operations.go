package secret

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// Operations is what can be asked of Keys, in the order of their numbers on the wire: new ones go
// to the end.
var Operations = []op.Operation{
	op.Define("status", access.RolesRead, "GET status", "tells which data keys there are, and whether values can be sealed", (*Keys).Status),
	op.Define("rotate", access.RolesGrant, "POST rotate", "makes a new data key, which seals from then on, and wraps all by the newest secret key", (*Keys).Rotate).
		Refuses(codes.NotImplemented, "the server has no secret key").
		Refuses(codes.Limit, "there are as many data keys as there may be").
		Refuses(codes.Forbidden, "with access control, only administrators may"),
	op.Define("reseal", access.RolesGrant, "POST reseal", "takes a step of sealing what older data keys seal by the newest: ask again from next until there is none", (*Keys).Reseal).
		Refuses(codes.NotImplemented, "there is no data key that seals").
		Refuses(codes.BadRequest, "`from` is not what a step has said in `next`"),
}

// StatusAsk asks for the state of the keys.
type StatusAsk struct {
	Uses bool `json:"uses,omitempty" doc:"count the values that each data key seals, which looks at all there are"`
}

// Status is the state of the keys.
type Status struct {
	Seals   bool      `json:"seals" doc:"values can be sealed"`
	Trouble string    `json:"trouble,omitempty" doc:"what is wrong; empty: nothing"`
	Newest  string    `json:"newest,omitempty" doc:"the data key that seals"`
	Keys    []DataKey `json:"keys" doc:"the data keys, oldest first"`
	Note    string    `json:"note,omitempty" doc:"which settings are missing: those of the secret key, or of access control; absent: none"`
}

// DataKey is what is told of a data key.
type DataKey struct {
	ID   string `json:"id" doc:"as it is in the marks of the values that it seals"`
	Made int64  `json:"made" doc:"when, in ms since 1970"`
	By   string `json:"by" doc:"the secret key that wraps it, by the beginning of a digest"`
	// Values is nil unless it was asked for.
	Values *int64 `json:"values,omitempty" doc:"with uses: how many values in files and keys it seals; histories, changes that wait and backups may have others"`
}

// missing names the settings without which keys keep no secrets.
func (k *Keys) missing() string {
	var notes []string
	if k.cfg.Source == nil {
		notes = append(notes, "there is no secret key, so nothing can be sealed; start the server with --secret-key-file")
	}
	if !k.guarded.Load() {
		notes = append(notes, "there is no access control, so everyone may reveal what is sealed; start the server with --access-control")
	}
	return strings.Join(notes, "; ")
}

// Status tells which data keys there are.
func (k *Keys) Status(ctx context.Context, _ *access.Actor, q *StatusAsk) (*Status, error) {
	records, err := k.records()
	if err != nil {
		return nil, err
	}
	s := &Status{Seals: k.Ring().Seals(), Note: k.missing()}
	if trouble := k.Trouble(); trouble != nil {
		s.Trouble = trouble.Error()
	}
	for _, r := range records {
		s.Keys = append(s.Keys, DataKey{ID: r.id, Made: r.Made, By: r.By})
	}
	if q.Uses {
		uses, err := k.uses(ctx)
		if err != nil {
			return nil, err
		}
		for i := range s.Keys {
			n := uses[s.Keys[i].ID]
			s.Keys[i].Values = &n
		}
	}
	if s.Seals {
		s.Newest = k.Ring().Newest()
	}
	return s, nil
}

// RotateAsk asks for a new data key.
type RotateAsk struct{}

// Rotated says what seals from now on.
type Rotated struct {
	Newest   string `json:"newest" doc:"the new data key"`
	Revision int64  `json:"revision" doc:"of the state store, that has it"`
}

// Rotate makes a new data key. Before that it takes the secret key anew from where it comes from.
// With access control it is for administrators: there can be MaxKeys, and none is ever removed.
// codes.NotImplemented: there is none. codes.Limit: there are MaxKeys.
func (k *Keys) Rotate(ctx context.Context, by *access.Actor, _ *RotateAsk) (*Rotated, error) {
	if k.cfg.Source == nil {
		return nil, codes.Errorf(codes.NotImplemented, "this server has no secret key: start it with --secret-key-file")
	}
	if by.Proved() != nil && !by.Administrator() {
		return nil, codes.Errorf(codes.Forbidden, "you may not make data keys, of which there can be %d and which are never removed; only administrators may", MaxKeys)
	}
	k.turn.Lock()
	defer k.turn.Unlock()
	if err := k.look(ctx); err != nil {
		return nil, err
	}
	for {
		rotated, err := k.rotate(ctx, by)
		if codes.Of(err) != codes.Conflict {
			return rotated, err
		}
	}
}

// rotate is Rotate with the secret keys that were taken. codes.Conflict: another server has made a data key.
func (k *Keys) rotate(ctx context.Context, by *access.Actor) (*Rotated, error) {
	unmade := k.unmade()
	records, err := k.records()
	switch {
	case err != nil:
		return nil, err
	case len(records) >= MaxKeys:
		return nil, codes.Errorf(codes.Limit, "there are %d data keys, which is the limit", len(records))
	}
	all, err := open(k.taken, records)
	if err != nil {
		return nil, err
	}
	next := NewDataKey(k.cfg.Clock.Now())
	if n := len(all); n > 0 {
		next.Made = max(next.Made, all[n-1].Made+1) // it is the newest even if clocks went back
	}
	rev, err := k.add(ctx, by, k.taken, &next, unmade)
	if err != nil {
		return nil, err
	}
	k.ring.Store(NewRing(append(all, next)))
	k.had = append(records, record{id: next.ID, rev: rev})
	k.cfg.Log.Info().Str("key", next.ID).Msg("a new data key seals from now on")
	return &Rotated{next.ID, int64(rev)}, nil
}

// Used implements [op.User].
func (k *Keys) Used(_ context.Context) ([]op.Used, error) {
	records, err := k.records()
	return []op.Used{{What: "data keys", N: int64(len(records)), Limit: MaxKeys}}, err
}
