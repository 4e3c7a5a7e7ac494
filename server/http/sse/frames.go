package sse

import (
	"sync"
	"sync/atomic"

	"confcenter/internal/memory"
)

// Frames has encoded events by what tells them apart, so that streams share them: each is
// encoded once and kept for a while, and longer while a stream writes it. They are counted in the
// pool of streams. Make one with NewFrames.
type Frames[K comparable] struct {
	Encoded atomic.Uint64 // how many events were encoded

	// set at open
	stalls *stalls
	max    int // bytes kept

	mu sync.Mutex
	// guarded by mu
	young, old map[K]*Frame
	bytes      int // of young
}

// NewFrames makes one that keeps at most so many bytes, for a server's streams.
func NewFrames[K comparable](l *Streams, most int) *Frames[K] {
	return &Frames[K]{stalls: l.stalls, max: most, young: map[K]*Frame{}}
}

// Frame is an encoded event, without its id and the final empty line.
type Frame struct {
	once sync.Once // encodes it
	pool *memory.Pool
	uses atomic.Int32 // 0: no stream has it, and it is not kept either
	// set by once
	text  []byte
	bytes int
}

// Of returns the frame of an event, which encode makes if there is none: with it
// so many bytes are kept besides its text. The caller releases the frame.
func (f *Frames[K]) Of(key K, encode func() (text []byte, more int)) *Frame {
	f.mu.Lock()
	one := f.young[key]
	if one == nil {
		one = f.old[key]
	}
	if one == nil {
		one = &Frame{pool: f.stalls.pool}
		one.uses.Add(1)
		f.young[key] = one
	}
	one.uses.Add(1)
	f.mu.Unlock()
	one.once.Do(func() {
		text, more := encode()
		one.text, one.bytes = text, cap(text)+memory.VersionCost+more
		f.keep(one)
	})
	return one
}

func (f *Frames[K]) keep(one *Frame) {
	one.pool.Add(int64(one.bytes))
	f.Encoded.Add(1)
	f.mu.Lock()
	if f.bytes += one.bytes; f.bytes > f.max/2 {
		drop(f.old)
		f.young, f.old, f.bytes = map[K]*Frame{}, f.young, 0
	}
	f.mu.Unlock()
	f.stalls.relieve()
}

// Release ends one use. Who holds the frame no longer reads its text.
func (one *Frame) Release() {
	if one.uses.Add(-1) == 0 {
		one.pool.Give(int64(one.bytes))
	}
}

// share is about how many bytes would be free if this user released the frame.
func (one *Frame) share() int64 { return int64(one.bytes) / int64(one.uses.Load()) }

func drop[K comparable](list map[K]*Frame) {
	for _, one := range list {
		one.Release()
	}
}

// Clear keeps none any more.
func (f *Frames[K]) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	drop(f.young)
	drop(f.old)
	f.young, f.old, f.bytes = map[K]*Frame{}, nil, 0
}
