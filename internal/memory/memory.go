// Package memory divides what the process may use. There is one budget, and every purpose
// for which peers can make the process hold something has a pool of it, with a limit.
// What does not fit into its pool is refused before it is read or built.
//
// The limits of the pools add up to at most 0.6 of the budget: the rest is for what Go's
// collector has not collected yet, for stacks, and for the program itself. Go's own limit
// is 0.9 of the budget; near it the collector works harder.
//
// A pool counts what things cost in memory, not how long they are: a caller that draws from
// one adds what the containers around the bytes take.
package memory

import (
	"iter"
	"sort"

	"confcenter/internal/metric"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Least is the smallest budget that a server can work with, in bytes.
const Least = 128 << 20

// Budget is the memory of the process. Its pools are set at open.
type Budget struct {
	Total int64 // bytes

	Store       *Pool // keys, values, and what finds them
	Engine      *Pool // the state store's recent changes, tables and caches
	Tokens      *Pool // results remembered for requests that are said again
	Queues      *Pool // writes and locks that wait, and versions kept for readers
	Staged      *Pool // changes of documents that come in parts
	Documents   *Pool // configuration files, those that wait to be written included
	Caches      *Pool // merged documents, indexes, prepared answers
	Bodies      *Pool // HTTP: bodies being read, answers being built
	Peers       *Pool // TCP: input, output, frames on their way to others
	Streams     *Pool // HTTP: changes on their way into streams
	Connections *Pool // what a connection costs that does nothing
}

// part is a pool with its share of the budget, in thousandths. A large machine's share may
// be more than anyone needs: most bounds it.
type part struct {
	name  string
	pool  **Pool
	share int64
	most  int64
}

func (b *Budget) parts() []part {
	return []part{
		{"store", &b.Store, 240, 0},
		{"engine", &b.Engine, 50, 192 << 20},
		{"tokens", &b.Tokens, 30, 256 << 20},
		{"queues", &b.Queues, 30, 256 << 20},
		{"staged", &b.Staged, 20, 64 << 20},
		{"documents", &b.Documents, 60, 0},
		{"caches", &b.Caches, 30, 512 << 20},
		{"bodies", &b.Bodies, 30, 256 << 20},
		{"peers", &b.Peers, 40, 512 << 20},
		{"streams", &b.Streams, 10, 64 << 20},
		{"connections", &b.Connections, 60, 384 << 20},
	}
}

// Divide makes the pools of a budget of so many bytes, at least Least.
func Divide(total int64) *Budget {
	b := &Budget{Total: total}
	for _, part := range b.parts() {
		limit := total / 1000 * part.share
		if part.most > 0 {
			limit = min(limit, part.most)
		}
		*part.pool = NewPool(limit)
	}
	return b
}

// GoLimit is what GOMEMLIMIT should be, in bytes.
func (b *Budget) GoLimit() int64 { return b.Total / 10 * 9 }

// Pools are the pools by name, in a fixed order.
func (b *Budget) Pools() iter.Seq2[string, *Pool] {
	return func(yield func(string, *Pool) bool) {
		for _, part := range b.parts() {
			if !yield(part.name, *part.pool) {
				return
			}
		}
	}
}

// Readings are the budget and each pool beside its limit.
func (b *Budget) Readings() metric.Readings {
	list := metric.Readings{{Name: "memory_budget_bytes", Help: "What the process may use (--memory).", N: b.Total}}
	for name, pool := range b.Pools() {
		labels := []metric.Label{{Name: "pool", Value: name}}
		list = append(list,
			metric.Reading{Name: "memory_pool_bytes", Help: "Memory in use, by purpose.", Labels: labels, N: pool.Held()},
			metric.Reading{Name: "memory_pool_limit_bytes", Help: "What each purpose may use.", Labels: labels, N: pool.Limit()},
			metric.Reading{Name: "memory_pool_refused_total", Help: "What was refused because it did not fit.", Labels: labels, N: int64(pool.Refused())})
	}
	return list
}

// StoreMost is how much the pool Store may have beside the others.
func (b *Budget) StoreMost() int64 {
	most := b.Total/10*6 + b.Store.Limit()
	for _, pool := range b.Pools() {
		most -= pool.Limit()
	}
	return most
}

// SetStore makes the pool Store so large, whatever its share is. The caller has compared it with
// StoreMost. It may be called before anyone draws from the pool.
func (b *Budget) SetStore(bytes int64) { b.Store = NewPool(bytes) }

// For is the smallest budget, in whole MiB, whose pool Store may have so many bytes.
func For(store int64) int64 {
	const mib = 1 << 20
	return int64(sort.Search(1<<40, func(n int) bool { return n >= Least/mib && Divide(int64(n)*mib).StoreMost() >= store })) * mib
}

// Source is what there is for a process that was not told its budget.
type Source struct {
	Default int64  // three quarters of the control group's limit, or half of the machine's memory
	Most    int64  // the largest budget that leaves the machine room: three quarters of either
	From    string // whose memory it is
}

// Available looks at the control group and the machine. Its figures are at least Least.
func Available() Source {
	if n, err := memlimit.FromCgroup(); err == nil {
		most := max(Least, int64(n/4*3))
		return Source{Default: most, Most: most, From: "the control group"}
	}
	n, err := memlimit.FromSystem()
	if err != nil {
		n = 2 << 30 // neither says anything: a small machine
	}
	return Source{Default: max(Least, int64(n/2)), Most: max(Least, int64(n/4*3)), From: "the machine"}
}
