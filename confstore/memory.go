package confstore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/memory"
)

// isRole reports whether a document says what people may do.
func isRole(name string) bool { return strings.HasPrefix(name, policy.RolePrefix) }

// errNoRoom says that a file was not read because there is no memory for it.
var errNoRoom = errors.New("no room")

// fileCost is what the intake knows of a file whose name is known, in the pool Documents.
func fileCost(name string) int64 { return memory.VersionCost + int64(len(name)) }

// noteRoom reports whether the last run had more memory: what it served is served.
func (in *intake) noteRoom() {
	text := ""
	if pool := in.cfg.Documents; pool.Over() {
		text = fmt.Sprintf("the configurations take more than the %d bytes of memory that they may; all are served, and nothing can be added: remove some or raise the server's --memory", pool.Limit())
	}
	in.dir.problems.Set(OfRoot, "memory", text)
}

// room is the memory for documents, as readers of files see it. Any goroutine may use it.
type room struct {
	pool *memory.Pool                       // set at open
	now  *atomic.Pointer[snapshot.Snapshot] // set at open

	recalled map[string]log.Document // what the log knows, while the store is opened; nil after that
}

// served is the digest of the file that name is served from; zero if it is not served.
func (m room) served(name string) log.Digest {
	if n := m.now.Load().Node(name); n.Known() {
		return n.Hash()
	}
	return m.recalled[name].Hash
}

// forFile reserves memory for a file that is going to be read, as far as the document that it
// replaces does not have it. One that is not much larger than that is read in any case.
func (m room) forFile(r *reading, size int64) error {
	if n := m.now.Load().Node(r.name); n.Live() && size <= int64(2*len(n.Text())+64<<10) {
		return nil
	}
	if d := m.recalled[r.name]; d.N > 0 && !d.Deleted && size <= int64(2*d.Size+64<<10) {
		return nil // it is counted with the snapshot
	}
	return m.take(r, size, size)
}

// forText reserves what is missing for a file that was read. If there is not so much, the text is
// dropped.
func (m room) forText(r *reading, size int64) {
	if d := m.recalled[r.name]; d.N > 0 && d.Hash == r.raw {
		return
	}
	if r.fault == "" && m.take(r, int64(len(r.text)), size) != nil {
		r.text, r.data = nil, nil
	}
}

// take reserves memory for a text; size is that of the file. A file that does not fit is tried again
// with every scan, but counted once as refused, by takeFault.
func (m room) take(r *reading, text, size int64) error {
	more := snapshot.Cost(r.name, text) - m.now.Load().Node(r.name).Cost() - r.room
	var who memory.Taker = (*access.Actor)(nil)
	if isRole(r.name) { // someone has to be able to take rights away when all is full
		who = memory.Reserve
	}
	share := m.pool.For(who)
	if more <= 0 || share.Fits(more) && share.Take(more) {
		r.room += max(0, more)
		return nil
	}
	r.noRoom, r.sig = true, signature{} // which every scan finds changed
	r.fault = fmt.Sprintf("does not fit into the memory for configurations: it has %d bytes, and all together may take %d; remove some or raise the server's --memory", size, m.pool.Limit())
	return errNoRoom
}

// done gives back what was reserved for readings: what is published is counted by itself.
func (m room) done(readings []reading) {
	for i := range readings {
		m.pool.Give(readings[i].room)
	}
}

// reserve reserves memory for so many bytes more that a document takes, until it is published. There is more
// for administrators, who have to act when others have filled it.
func (w *writer) reserve(f *fileSetting, more int64) error {
	name := f.req.Name
	if w.in.files[name] == nil {
		more += fileCost(name)
	}
	if more <= 0 {
		return nil
	}
	pool := w.cfg.Documents
	if !pool.For(f.req.Actor).Take(more) {
		return codes.Errorf(codes.Quota, "%s needs %d bytes of memory more, and of the %d for configurations %d are taken; delete some, or raise the server's --memory", name, more, pool.Limit(), pool.Held())
	}
	f.room = more
	return nil
}
