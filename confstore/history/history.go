package history

import (
	"cmp"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// Config is what a History is given.
type Config struct {
	Memory *memory.Pool // for what is read to answer a question; nil: 64 MiB
	Clock  clock.Clock  // nil: the machine's

	Documents Documents    // to change; nil: they cannot be
	Clients   Clients      // that are connected; nil: it is not known
	Staged    *memory.Pool // for changes that come in parts; nil: 64 MiB
}

// History answers questions about the past of documents. Its methods may wait for a disk: they
// are not for event loops.
//
// wide: each question is a method.
type History struct {
	// set at open
	log    *log.Log
	cfg    Config
	stages stages

	pruning sync.Mutex // held while versions are removed
}

// Open opens the history in store.
func Open(store kv.Archive, cfg Config) *History {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.Memory = cfg.Memory.Or(64 << 20)
	return &History{
		log: log.Read(store), cfg: cfg,
		stages: stages{clock: cfg.Clock, pool: cfg.Staged.Or(64 << 20), list: map[stageName]*staged{}},
	}
}

// room is the memory that one question takes.
type room struct {
	pool *memory.Pool
	held int64
}

func (h *History) room() *room { return &room{pool: h.cfg.Memory} }

// takenFor is after what time a question for which there was no memory is worth asking again.
const takenFor = time.Second

// take is called before something is read or made.
func (r *room) take(bytes int) error {
	n := int64(bytes)
	switch {
	case r.held+n > r.pool.Limit():
		return codes.Errorf(codes.TooLarge, "the question takes more memory than the %d bytes there are for all: ask for less, or raise the server's --memory", r.pool.Limit())
	case !r.pool.Take(n):
		return &codes.Error{Code: codes.Busy, After: takenFor, Text: "there is no memory for the question now; try again later"}
	}
	r.held += n
	return nil
}

// returns gives a part back early.
func (r *room) returns(bytes int) {
	r.held -= int64(bytes)
	r.pool.Give(int64(bytes))
}

func (r *room) give() {
	r.pool.Give(r.held)
	r.held = 0
}
