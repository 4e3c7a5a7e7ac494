package clients

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// getClients answers GETCLI: all clients or one, or a page of them, with all properties or one.
func (f *Handlers) getClients(s *gate.Session, h protocol.Header, _ []byte) bool {
	id, _ := s.Local.Req.IntOrText("svrid")
	after, _ := s.Local.Req.IntOrText("after")
	limit, paged := s.Local.Req.IntOrText("limit")
	key := string(s.Local.Req.Text("key"))
	switch {
	case id > 0 && s.Reach(policy.Read, id) == nil:
		s.Result(h, int(codes.NotFound), "no exit svrid="+strconv.Itoa(int(id)))
		return true
	case paged && limit < 1:
		s.Result(h, int(codes.BadRequest), "limit is "+strconv.Itoa(int(limit))+", it must be above 0")
		return true
	}
	l := listing{group: s.Group(), who: s.Taker(), key: key, count: true, remedy: "ask for one property by key, or for pages by limit and after"}
	if paged {
		l.limit = int(limit)
	}
	sees := seenBy(s)
	s.Later(h, func(dst []byte) []byte {
		return l.append(dst, s.Gate.Registry.Select(func(of *gate.Session, c *gate.Client) bool {
			return sees(of, c) && (id == 0 || c != nil && c.ID == id) && (!paged || c != nil && c.ID > after)
		}))
	})
	return true
}

// getWarnings answers GETWARN: the clients on the warn list whose property filter_key is
// filter_val.
func (f *Handlers) getWarnings(s *gate.Session, h protocol.Header, _ []byte) bool {
	key, value := string(s.Local.Req.Text("filter_key")), string(s.Local.Req.Text("filter_val"))
	l := listing{group: s.Group(), who: s.Taker(), remedy: "ask for fewer by filter_key and filter_val"}
	sees := seenBy(s)
	s.Later(h, func(dst []byte) []byte {
		return l.append(dst, s.Gate.Registry.Select(func(of *gate.Session, c *gate.Client) bool {
			return sees(of, c) && c != nil && c.Warn != "" && (key == "" || c.Prop(key) == value)
		}))
	})
	return true
}

// seenBy tells of whom s may read, off its loop: itself always, and of those that have not said who
// they are only if it may read of all.
func seenBy(s *gate.Session) func(of *gate.Session, c *gate.Client) bool {
	may := s.May()
	all := may.Sees(op.Whole(policy.Read, policy.Clients))
	return func(of *gate.Session, c *gate.Client) bool {
		switch {
		case of == s:
			return true
		case c == nil:
			return all
		}
		return may.Sees(op.Client(policy.Read, c.Prop("svrname")))
	}
}

// listing is how clients are listed.
type listing struct {
	group  *loop.Group
	key    string       // the only property to list; empty: all
	limit  int          // how many clients, in the order of their ids; 0: all, in any order
	count  bool         // the reply has the member count
	remedy string       // against a reply that is too long
	who    memory.Taker // asks
}

func (l *listing) append(dst []byte, found []gate.Seen) []byte {
	more := l.limit > 0 && len(found) > l.limit
	if l.limit > 0 {
		slices.SortFunc(found, func(a, b gate.Seen) int { return cmp.Compare(a.ID(), b.ID()) })
		found = found[:min(l.limit, len(found))]
	}
	size := 0
	for i := range found {
		size += l.sizeOf(&found[i])
	}
	list := gate.List{What: fmt.Sprintf("%d clients", len(found)), Size: size, Remedy: l.remedy, For: l.who}
	return list.Append(l.group, dst, func(dst []byte) []byte {
		dst = protocol.AppendRecords(dst, l.records(found), l.count)
		if more {
			dst = protocol.AppendMore(dst)
		}
		return dst
	})
}

// keySize is what a record with one property has besides its name and its value.
const keySize = len(`{"":""},`)

func (l *listing) sizeOf(one *gate.Seen) int {
	if l.key == "" {
		return one.Size()
	}
	size := len(l.key) + keySize
	for _, p := range one.Record() {
		if p.Name == l.key {
			size += len(p.Value)
		}
	}
	return size
}

func (l *listing) records(found []gate.Seen) iter.Seq[[]protocol.Property] {
	return func(yield func([]protocol.Property) bool) {
		for i := range found {
			record := found[i].Record()
			if l.key != "" {
				record = slices.DeleteFunc(record, func(p protocol.Property) bool { return p.Name != l.key })
			}
			if !yield(record) {
				return
			}
		}
	}
}

// hungup answers HUNGUP: which clients of type server have left.
func (f *Handlers) hungup(s *gate.Session, h protocol.Header, _ []byte) bool {
	req := &s.Local.Req
	id, _ := req.IntOrText("svrid")
	switch string(req.Text("op")) {
	case "get":
		out := s.Begin(h.Command.Reply(), h.Seq)
		s.End(protocol.AppendRecords(out, slices.Values(f.departed.list(id, s.May())), false))
	case "set":
		f.departed.forgive(id, s.May())
		s.Result(h, 0, "success")
	default:
		s.Result(h, int(codes.BadOp), "leak of op param")
	}
	return true
}

// departed are the clients of type server that have left recently, for HUNGUP.
type departed struct {
	mu   sync.Mutex
	gone []gonePeer // guarded by mu
}

// gonePeer is one of them.
type gonePeer struct {
	id                            int32
	name, svrname, shell, program string
	began, ended                  int64 // unix seconds
}

// maxGone limits their list; the oldest are dropped.
const maxGone = 200

func (d *departed) add(g gonePeer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.gone) == maxGone {
		d.gone = slices.Delete(d.gone, 0, 1)
	}
	d.gone = append(d.gone, g)
}

// list returns those that may be read; id 0 means all.
func (d *departed) list(id int32, may op.May) [][]protocol.Property {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list [][]protocol.Property
	for _, g := range d.gone {
		if (id == 0 || g.id == id) && may.Sees(op.Client(policy.Read, g.svrname)) {
			list = append(list, []protocol.Property{
				{Name: "svrid", Value: strconv.Itoa(int(g.id))}, {Name: "name", Value: g.name},
				{Name: "svrname", Value: g.svrname}, {Name: "shell", Value: g.shell}, {Name: "progi", Value: g.program},
				{Name: "begin_time", Value: wallTime(g.began)}, {Name: "end_time", Value: wallTime(g.ended)},
			})
		}
	}
	return list
}

// forgive forgets those that may be deleted; id 0 means all.
func (d *departed) forgive(id int32, may op.May) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = slices.DeleteFunc(d.gone, func(g gonePeer) bool {
		return (id == 0 || g.id == id) && may.Sees(op.Client(policy.Delete, g.svrname))
	})
}

// left records that a client leaves.
func (f *Handlers) left(s *gate.Session) {
	f.oplog.add("CLIENT_CLOSE", s.Name(), s.Peer.String())
	s.Gate.Registry.Do(func() {
		if c := s.Client; c.Prop("clitype") == "1" {
			f.departed.add(gonePeer{
				id: c.ID, name: c.Prop("name"), svrname: c.Prop("svrname"), shell: c.Prop("shell"),
				program: c.Profile, began: s.Opened / 1e9, ended: f.clock.Now().Unix(),
			})
		}
	})
}

func wallTime(unix int64) string { return time.Unix(unix, 0).Format("2006-01-02 15:04:05") }

// getLog answers GETLOGR: the newest lines of the operation log first.
func (f *Handlers) getLog(s *gate.Session, h protocol.Header, _ []byte) bool {
	size, ok := s.Local.Req.IntOrText("size")
	if !ok {
		size = 10
	}
	lines := f.oplog.newest(int(size))
	s.Later(h, func(dst []byte) []byte { return protocol.AppendLines(dst, lines) })
	return true
}

// testing answers only what CppCloud's own tools request.
func (f *Handlers) testing(s *gate.Session, h protocol.Header, _ []byte) bool {
	if string(s.Local.Req.Text("cmd")) == "broadshow" {
		s.Reply(h, nil)
	}
	return true
}
