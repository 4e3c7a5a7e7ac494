package op

import (
	"context"

	"confcenter/access/policy"
)

// May refuses a thing that its caller may not do; nil refuses nothing.
type May func(Thing) error

// Needs refuses the first of things that may not be done.
func (m May) Needs(things ...Thing) error {
	if m == nil {
		return nil
	}
	for i := range things {
		if err := m(things[i]); err != nil {
			return err
		}
	}
	return nil
}

// Sees reports whether a thing may be done: what may not is left out of an answer, as if it were not there.
func (m May) Sees(t Thing) bool { return m == nil || m(t) == nil }

// Names reports whether the name of a document may be told.
func (m May) Names(name string) bool { return m.Sees(Document(policy.Read, name)) }

type mayKey struct{}

// With is ctx with what its caller may do, which [MayOf] returns.
func With(ctx context.Context, m May) context.Context {
	if m == nil {
		return ctx
	}
	return context.WithValue(ctx, mayKey{}, m)
}

// MayOf is what the caller of ctx may do, by names that are known only when the answer is made.
func MayOf(ctx context.Context) May {
	m, _ := ctx.Value(mayKey{}).(May)
	return m
}
