package audit

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"confcenter/access"
	"confcenter/codes"
)

// Block is lines that became durable together, each with a line feed. It is shared and immutable.
type Block struct {
	First, Last int64 // the numbers of the lines
	Lines       []byte
}

// mostBlock is how long a block may become before another one begins, in bytes.
const mostBlock = 128 << 10

// Key is the key of the block in its namespace: by its last line, so that the first key at or above
// that of a number is of the block with that line.
func (b *Block) Key() string { return KeyOf(b.Last) }

// KeyOf is the key that a block has whose last line has that number.
func KeyOf(last int64) string { return fmt.Sprintf("%016x", last) }

// ParseBlock reads a block by its key and lines, as far as it takes to find its place in the chain.
// codes.Storage: it is none.
func ParseBlock(key string, lines []byte) (b Block, head Head, err error) {
	b.Lines = lines
	b.Last, err = strconv.ParseInt(key, 16, 64)
	if err != nil || b.Key() != key || len(lines) == 0 || lines[len(lines)-1] != '\n' || b.Last < int64(bytes.Count(lines, []byte("\n"))) {
		return b, head, codes.Errorf(codes.Storage, "what the state store has of the audit is damaged: block %.40q; restore the data directory from a backup", key)
	}
	b.First = b.Last - int64(bytes.Count(lines, []byte("\n"))) + 1
	return b, Head{Seq: b.Last, Hash: sha256.Sum256(b.last())}, nil
}

// last is the last line, without its line feed.
func (b *Block) last() []byte {
	text := b.Lines[:len(b.Lines)-1]
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// Trail is the chain that a store writes. The store's committer, one goroutine, calls Resume, Begin,
// Add, Blocks and Published; the other methods may be called from any goroutine.
type Trail struct {
	most int // set at open: bytes of blocks in recent

	// committer only
	next   Head // with the lines of the group under way
	blocks []Block

	mu        sync.Mutex
	head      Head            // guarded by mu: of the lines that are durable
	recent    []Block         // guarded by mu: the newest ones
	bytes     int             // guarded by mu: of recent
	followers []chan struct{} // guarded by mu

	lines, size atomic.Uint64 // written since the start
}

// New makes a trail that keeps about most bytes of its newest lines in memory for those who follow.
func New(most int) *Trail { return &Trail{most: most} }

// Resume goes on behind a head.
func (t *Trail) Resume(h Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head, t.next = h, h
}

// Begin begins a group of transactions; lines that were not published are forgotten.
func (t *Trail) Begin() {
	if len(t.blocks) > 0 || t.next != t.head { // only the committer writes head
		t.next, t.blocks = t.head, nil
	}
}

// Add adds a line about an event to the group.
func (t *Trail) Add(e *access.Event, now, rev int64) {
	if n := len(t.blocks); n == 0 || len(t.blocks[n-1].Lines) >= mostBlock {
		t.blocks = append(t.blocks, Block{First: t.next.Seq + 1})
	}
	b := &t.blocks[len(t.blocks)-1]
	l := LineOf(e, now, rev)
	b.Lines, t.next = t.next.Next(b.Lines, &l)
	b.Last = l.Seq
}

// Blocks are the lines of the group, to be written with it. They are the caller's.
func (t *Trail) Blocks() []Block {
	blocks := t.blocks
	t.blocks = nil
	return blocks
}

// Published has followers know of a block that is durable. codes.Storage: it is none of the chain.
func (t *Trail) Published(key string, lines []byte) error {
	b, head, err := ParseBlock(key, lines)
	if err != nil {
		return err
	}
	t.lines.Add(uint64(b.Last - b.First + 1))
	t.size.Add(uint64(len(lines)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = head
	t.recent = append(t.recent, b)
	t.bytes += len(lines)
	drop := 0
	for ; t.bytes > t.most && drop < len(t.recent)-1; drop++ {
		t.bytes -= len(t.recent[drop].Lines)
	}
	t.recent = slices.Delete(t.recent, 0, drop)
	for _, f := range t.followers {
		select {
		case f <- struct{}{}:
		default:
		}
	}
	return nil
}

// Head is that of the lines that are durable.
func (t *Trail) Head() Head {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// Written is how many lines, of how many bytes, were written since the start.
func (t *Trail) Written() (lines, size uint64) { return t.lines.Load(), t.size.Load() }

// Since returns the block that goes on behind a line, or has the next line among others. ok is false
// if that must be read from the store. Without new lines it is an empty block.
func (t *Trail) Since(seq int64) (b Block, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq >= t.head.Seq {
		return Block{}, true
	}
	i, _ := slices.BinarySearchFunc(t.recent, seq+1, func(b Block, due int64) int {
		if b.Last < due {
			return -1
		}
		return 1
	})
	if i == len(t.recent) || t.recent[i].First > seq+1 {
		return Block{}, false
	}
	return t.recent[i], true
}

// Follow returns a channel that has a value whenever there may be new lines, until stop.
func (t *Trail) Follow() (news <-chan struct{}, stop func()) {
	f := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = append(t.followers, f)
	return f, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.followers = slices.DeleteFunc(t.followers, func(other chan struct{}) bool { return other == f })
	}
}
