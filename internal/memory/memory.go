// Package memory divides what the process may use. There is one budget, and every purpose
// for which peers can make the process hold something has a pool of it, with a limit.
// What does not fit into its pool is refused before it is read or built.
//
// The limits of the pools add up to at most 0.6 of the budget: the rest is for what Go's
// collector has not collected yet, for stacks, and for the program itself. Go's own limit
// is 0.9 of the budget; near it the collector works harder.
//
// A pool counts what things cost in memory, not how long they are: whoever draws from one
// adds what the containers around the bytes take.
package memory

import (
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
	Documents   *Pool // configuration files, those that wait to be written included
	Caches      *Pool // merged documents, indexes, prepared answers
	Bodies      *Pool // HTTP: bodies being read, answers being built
	Peers       *Pool // TCP: input, output, frames on their way to others
	Streams     *Pool // HTTP: changes on their way into streams
	Connections *Pool // what a connection costs that does nothing
}

// part is a pool with its share of the budget, in thousandths. A large machine's share may
// be more than anybody needs: most bounds it.
type part struct {
	name  string
	pool  **Pool
	share int64
	most  int64
}

func (b *Budget) parts() []part {
	return []part{
		{"store", &b.Store, 290, 0},
		{"engine", &b.Engine, 50, 128 << 20},
		{"tokens", &b.Tokens, 30, 256 << 20},
		{"queues", &b.Queues, 30, 256 << 20},
		{"documents", &b.Documents, 60, 0},
		{"caches", &b.Caches, 30, 512 << 20},
		{"bodies", &b.Bodies, 30, 256 << 20},
		{"peers", &b.Peers, 40, 512 << 20},
		{"streams", &b.Streams, 10, 64 << 20},
		{"connections", &b.Connections, 30, 0},
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

// Readings are the budget and each pool beside its limit.
func (b *Budget) Readings() metric.Readings {
	list := metric.Readings{{Name: "memory_budget_bytes", Help: "What the process may use (--memory).", N: b.Total}}
	for _, part := range b.parts() {
		pool, labels := *part.pool, []metric.Label{{Name: "pool", Value: part.name}}
		list = append(list,
			metric.Reading{Name: "memory_pool_bytes", Help: "Memory in use, by purpose.", Labels: labels, N: pool.Held()},
			metric.Reading{Name: "memory_pool_limit_bytes", Help: "What each purpose may use.", Labels: labels, N: pool.Limit()},
			metric.Reading{Name: "memory_pool_refused_total", Help: "What was refused because it did not fit.", Labels: labels, N: int64(pool.Refused())})
	}
	return list
}

// Available is the budget for a process that was not told one: three quarters of the
// control group's limit, or half of the machine's memory if it has none, and where that
// limit comes from. It is at least Least.
func Available() (bytes int64, from string) {
	if n, err := memlimit.FromCgroup(); err == nil {
		return max(Least, int64(n/4*3)), "the control group"
	}
	n, err := memlimit.FromSystem()
	if err != nil {
		return 1 << 30, "no source" // neither says anything: a small server
	}
	return max(Least, int64(n/2)), "the machine"
}
