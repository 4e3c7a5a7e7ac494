package flow

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
)

// A change in pieces that did not come to its end has left a duty, whose lease would keep others
// away for a while. The duty is marked with the request's token, so that a repetition knows that it
// is its own, and need not wait.

// mark is how a request is known by a duty; empty: it has no token.
func (e *edit) mark() string {
	if e.asked == nil {
		return ""
	}
	return " " + hex.EncodeToString(e.asked)
}

// errOwn is that the same request has begun a change in pieces before, and not ended it.
var errOwn = codes.Errorf(codes.Conflict, "the same request is under way; try again when that is done")

// underWay is the refusal of a change that a duty says to be under way: errOwn, or what others are
// told.
func underWay(e *edit, duty *kv.Entry, format string, m Member) error {
	if mark := e.mark(); mark != "" && strings.HasSuffix(text(duty), mark) {
		return errOwn
	}
	return codes.Errorf(codes.Conflict, format, m)
}

// afresh begins a change in pieces. What the same request has left is taken away first: should it
// still be at it somewhere, it has lost its lease, and can publish nothing.
func afresh(ctx context.Context, e *edit, what string, m Member, begin func() error) error {
	err := begin()
	if !errors.Is(err, errOwn) {
		return err
	}
	got := e.f.store.GetMany(index, indexKey(what, e.ns, m), indexKey(liveKey, e.ns, m))
	if duty, live := got[0], got[1]; duty != nil && errors.Is(underWay(e, duty, "%s", m), errOwn) {
		if live != nil {
			e.revoke(ctx, live.Lease)
		}
		if what == dutyCopy {
			err = e.dropCopy(ctx, m)
		} else {
			_, err = e.drop(ctx, m, 0, true)
		}
		if err != nil && codes.Of(err) != codes.NotFound { // or the sweep was faster
			return err
		}
	}
	return begin()
}
