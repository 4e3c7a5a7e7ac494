package server

import (
	"sync/atomic"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/seal"
	"confcenter/confstore"
	"confcenter/confstore/change"
	"confcenter/state/host"
	"confcenter/state/review"
	"confcenter/state/secret"
)

// later is what the documents ask about their changes. It opens after them.
type later struct {
	control atomic.Pointer[control.Control]
	secrets atomic.Pointer[secret.Keys]
	reviews atomic.Pointer[review.Reviews]
}

// know has the documents obey from now on; c is nil without access control.
func (r *later) know(c *control.Control, models *host.Host, documents *confstore.Store) {
	r.control.Store(c)
	models.Secret().Over(documents)
	r.secrets.Store(models.Secret())
	if c == nil {
		return
	}
	reviews := models.Reviews()
	reviews.Obey(c)
	models.Tokens().Await(reviews.HoldToken)
	r.reviews.Store(reviews)
}

// ring has the keys of sealed values.
func (r *later) ring() *seal.Ring {
	if keys := r.secrets.Load(); keys != nil {
		return keys.Ring()
	}
	return nil
}

// Marked implements confstore.Approval.
func (r *later) Marked(name string) bool {
	reviews := r.reviews.Load()
	return reviews != nil && reviews.Marked(name)
}

// Hold implements confstore.Approval. Nothing is marked before there is somebody to hold it.
func (r *later) Hold(h *change.Held) error { return r.reviews.Load().Hold(h) }

func (r *later) check(name string, before, contents []byte, by *access.Actor) error {
	return r.control.Load().Check(name, before, contents, by)
}

func (r *later) lessens(name string, before, contents []byte) bool {
	return r.control.Load().Lessens(name, before, contents)
}

func (r *later) mayChange(name string, deletes bool, by *access.Actor) error {
	return r.control.Load().MayChange(name, deletes, by)
}
