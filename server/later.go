package server

import (
	"sync/atomic"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/secret"
	"confcenter/confstore/change"
	"confcenter/server/host"
)

// judges are whom the documents ask about their changes.
type judges struct {
	control *control.Control // nil: there is no access control, or it has not opened
	models  *host.Host       // nil: peers cannot get in yet
}

// later has the judges, who open after the documents. It is never empty.
type later struct{ atomic.Pointer[judges] }

func (l *later) check(name string, before, contents []byte, by *access.Actor) error {
	return l.Load().control.Check(name, before, contents, by)
}

func (l *later) lessens(name string, before, contents []byte) bool {
	return l.Load().control.Lessens(name, before, contents)
}

func (l *later) mayChange(name string, deletes bool, by *access.Actor) error {
	return l.Load().control.MayChange(name, deletes, by)
}

// ring has the keys of sealed values.
func (l *later) ring() *secret.Ring {
	if models := l.Load().models; models != nil {
		return models.Secret().Ring()
	}
	return nil
}

// Marked implements confstore.Approval.
func (l *later) Marked(name string) bool {
	models := l.Load().models
	return models != nil && models.Reviews().Marked(name)
}

// Hold implements confstore.Approval. Nothing is marked before there is a model to hold it.
func (l *later) Hold(h *change.Held) error { return l.Load().models.Reviews().Hold(h) }
