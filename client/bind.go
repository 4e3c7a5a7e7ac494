package client

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"

	"confcenter/client/internal/callback"
	"confcenter/codes"
)

// Handle is a document as a value of type T that follows its changes. End it
// with Stop.
type Handle[T any] struct {
	options  BindOptions[T]
	follower *follower
	job      *callback.Job
	value    atomic.Pointer[bound[T]] // the last good one

	mu       sync.Mutex // guards the rest
	err      error
	onUpdate []func(old, now *T)

	told *T // the value that the functions were last called with; job only
}

type bound[T any] struct {
	value *T
	doc   *Document
}

// Bind decodes a document into a T, as Document.Decode does, and keeps it up to date.
// Bind fails if there is no such document or it does not decode. If a later change
// does not decode, or the document is deleted, the handle keeps the last good value.
// ctx limits only the wait for the first value; see Watch.
func Bind[T any](ctx context.Context, c *Client, q Query) (*Handle[T], error) {
	return BindWith(ctx, c, q, BindOptions[T]{})
}

// BindWith is Bind with defaults, strictness and validation.
func BindWith[T any](ctx context.Context, c *Client, q Query, o BindOptions[T]) (*Handle[T], error) {
	h := &Handle[T]{options: o}
	h.job = &callback.Job{Run: h.run}
	h.follower = c.newFollower(q, h.take)
	if err := h.follower.follow(ctx); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	if h.value.Load() == nil {
		h.Stop()
		return nil, fmt.Errorf("bind: %w", h.Err())
	}
	return h, nil
}

// take decodes a new state. It does not run as a callback, so a slow callback does not
// delay Load.
func (h *Handle[T]) take(doc *Document) {
	last := h.value.Load()
	if last != nil && sameContents(last.doc, doc) {
		h.setErr(nil) // back at the last good one
		return
	}
	value, err := h.options.read(doc)
	if err != nil {
		h.setErr(err)
		if last != nil {
			h.follower.c.reportLoudly(slog.LevelWarn, "a change cannot be used", fmt.Errorf("kept the last good version: %w", err))
		}
		return
	}
	h.value.Store(&bound[T]{value, doc})
	h.setErr(nil)
	if last == nil {
		h.told = value // Bind's caller has it; it is not a change
		return
	}
	h.follower.c.callbacks.Post(h.job)
}

func (h *Handle[T]) setErr(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// run is the handle's job.
func (h *Handle[T]) run() {
	old, value := h.told, h.Load()
	h.mu.Lock()
	tell := h.onUpdate
	h.mu.Unlock()
	if value == old {
		return
	}
	h.told = value
	for _, fn := range tell {
		if h.follower.ended() {
			return
		}
		h.follower.c.callbacks.Call("a function given to OnChange of "+h.Document().where(""), func() { fn(old, value) })
	}
}

// Load returns the newest good value. It is shared and must not be modified. Load
// never waits and never returns nil.
func (h *Handle[T]) Load() *T { return h.value.Load().value }

// Err says why Load does not return the newest state of the document: it was deleted
// (codes.NotFound), does not decode or is not valid. Nil if Load is current.
func (h *Handle[T]) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Document is what Load's value was decoded from.
func (h *Handle[T]) Document() *Document {
	doc := h.value.Load().doc
	if newest := h.follower.document(); sameContents(newest, doc) {
		return newest // the same, perhaps confirmed since
	}
	return doc
}

// OnChange calls fn with each new value from now on, one call at a time. If values
// come faster than fn returns, fn gets only the newest. Several functions are called
// in the order of registration. A panic goes to Config.OnError.
func (h *Handle[T]) OnChange(fn func(*T)) { h.OnUpdate(func(_, now *T) { fn(now) }) }

// OnUpdate is OnChange with the previous value: the one that Bind returned, or the
// one fn was last called with, even if others were skipped. Both are shared.
func (h *Handle[T]) OnUpdate(fn func(old, now *T)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onUpdate = append(h.onUpdate[:len(h.onUpdate):len(h.onUpdate)], fn)
}

// Stop stops following the document; Load keeps its last value.
func (h *Handle[T]) Stop() { h.follower.stop() }

// BindOptions control how a document becomes a T. With the zero value BindWith is
// Bind.
type BindOptions[T any] struct {
	// Defaults returns the value that the document is decoded over: a member missing
	// from the document keeps its default, objects merge at every depth, and an array
	// replaces the default array as a whole. It is called for each new document and
	// must return a new value each time. Nil: the zero T.
	Defaults func() T
	// Optional allows the document to be absent: the value is then that of Defaults,
	// at Bind and whenever the document is deleted.
	Optional bool
	// Strict refuses a document with members that T does not have. It catches
	// misspelt names, but programs must be updated before new members are added.
	// Without it such members are ignored.
	Strict bool
	// Validate, if set, refuses a value by returning an error; (*T).Validate fits.
	// BindWith returns that error. Later the last good value stays and the error goes
	// to Config.OnError, so it should not contain secret values.
	Validate func(*T) error
}

func (o *BindOptions[T]) read(doc *Document) (*T, error) {
	value := new(T)
	if o.Defaults != nil {
		if err := callback.Guarded(func() { *value = o.Defaults() }); err != nil {
			return nil, err
		}
	}
	switch {
	case !doc.Exists() && o.Optional:
	case !doc.Exists():
		return nil, doc.absent("")
	default:
		if err := o.decode(doc, value); err != nil {
			return nil, codes.Errorf(codes.BadRequest, "%s does not fit %T: %w", doc.where(""), value, err)
		}
	}
	if o.Validate == nil {
		return value, nil
	}
	var err error
	if p := callback.Guarded(func() { err = o.Validate(value) }); p != nil {
		err = p
	}
	if err != nil {
		return nil, codes.Errorf(codes.BadRequest, "%s is not valid: %w", doc.where(""), err)
	}
	return value, nil
}

func (o *BindOptions[T]) decode(doc *Document, value *T) error {
	var defaults []savedSlice
	if o.Defaults != nil {
		defaults = takeSlices(nil, reflect.ValueOf(value).Elem())
	}
	api := decoding
	if o.Strict {
		api = strictly
	}
	if err := decodeBy(api, doc.raw, value); err != nil {
		return err
	}
	for _, s := range defaults {
		if s.field.IsNil() {
			s.field.Set(s.value)
		}
	}
	return nil
}

// savedSlice is a default that was taken out of its field. A decoder reuses the elements
// of a slice that it finds: the document's first element would inherit members from the
// default's first.
type savedSlice struct{ field, value reflect.Value }

func takeSlices(taken []savedSlice, v reflect.Value) []savedSlice {
	switch v.Kind() {
	case reflect.Slice:
		if v.CanSet() && !v.IsNil() {
			taken = append(taken, savedSlice{v, reflect.ValueOf(v.Interface())})
			v.SetZero()
		}
	case reflect.Pointer:
		if !v.IsNil() {
			taken = takeSlices(taken, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				taken = takeSlices(taken, v.Field(i))
			}
		}
	}
	return taken
}
