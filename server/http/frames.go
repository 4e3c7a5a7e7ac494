package http

import (
	"sync"
	"sync/atomic"

	"confcenter/internal/memory"
	"confcenter/kv"
)

// frames has the encoded events, so that streams share them: each is encoded once and
// kept for a while, and longer while a stream writes it. They are counted in the pool of
// streams.
type frames struct {
	// set at open
	stalls  *stalls
	max     int // bytes kept
	encoded atomic.Uint64

	mu sync.Mutex
	// guarded by mu
	young, old map[frameKey]*frame
	bytes      int // of young
}

// frameKey names an event: of a key by the entries that streams share with the store and with each
// other, of a document by its revision. What a document is in a state its revision does not say,
// because others have a say in it.
type frameKey struct {
	entry, prev    *kv.Entry
	ns, name, path string
	mod            kv.Revision
	state          *byte // of the contents
	form           form
}

func frameKeyOf(e *kv.Event, state bool, path string, form form) frameKey {
	if form >= documentForm {
		key := frameKey{ns: e.Entry.NS, name: e.Entry.Key, path: path, mod: e.Entry.Mod, form: form}
		if state {
			key.state = &e.Entry.Value.Data[0]
		}
		return key
	}
	key := frameKey{entry: e.Entry, form: form}
	if form == ownPrevForm {
		key.prev = e.Prev
	}
	return key
}

// frame is an encoded event, without its id and the final empty line.
type frame struct {
	once sync.Once // encodes it
	pool *memory.Pool
	uses atomic.Int32 // 0: no stream has it, and it is not kept either
	// set by once
	text  []byte
	bytes int
}

// of returns the frame of an event. The caller releases it.
func (f *frames) of(key frameKey, e *kv.Event) *frame {
	f.mu.Lock()
	one := f.young[key]
	if one == nil {
		one = f.old[key]
	}
	if one == nil {
		one = &frame{pool: f.stalls.pool}
		one.uses.Add(1)
		f.young[key] = one
	}
	one.uses.Add(1)
	f.mu.Unlock()
	one.once.Do(func() { f.encode(one, key, e) })
	return one
}

func (f *frames) encode(one *frame, key frameKey, e *kv.Event) {
	one.text = encoders[key.form](nil, e)
	one.bytes = cap(one.text) + memory.VersionCost
	if key.entry != nil || key.state != nil { // it is kept
		one.bytes += e.Entry.Size()
	}
	if key.prev != nil {
		one.bytes += key.prev.Size()
	}
	one.pool.Add(int64(one.bytes))
	f.encoded.Add(1)
	f.mu.Lock()
	if f.bytes += one.bytes; f.bytes > f.max/2 {
		drop(f.old)
		f.young, f.old, f.bytes = map[frameKey]*frame{}, f.young, 0
	}
	f.mu.Unlock()
	f.stalls.relieve()
}

// release ends one use. Who holds the frame no longer reads its text.
func (one *frame) release() {
	if one.uses.Add(-1) == 0 {
		one.pool.Give(int64(one.bytes))
	}
}

// share is about how many bytes would be free if this user released the frame.
func (one *frame) share() int64 { return int64(one.bytes) / int64(one.uses.Load()) }

func drop(list map[frameKey]*frame) {
	for _, one := range list {
		one.release()
	}
}

func (f *frames) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	drop(f.young)
	drop(f.old)
	f.young, f.old, f.bytes = map[frameKey]*frame{}, nil, 0
}
