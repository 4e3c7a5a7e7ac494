package serving

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"github.com/rs/zerolog"

	"confcenter/internal/memory"
	"confcenter/internal/settings"
)

// reservedFiles is how many open files are kept for other things than connections
// with a place: files of the configuration being read, the state store's,
// the watcher, the loops, and connections on their way in or out.
const reservedFiles = 512

// Shares that HTTP and unidentified connections have of the memory for connections, in sixteenths, if the
// operator does not say how many there may be; TCP has the rest.
const (
	webShare          = 6
	unidentifiedShare = 2
)

// limitConnections decides how many connections there may be: as many as were asked for, else as
// the limit on open files and so much memory allow.
func (o *Options) limitConnections(files int, room int64, log zerolog.Logger) (err error) {
	share := func(sixteenths, cost int64) int { return int(room / 16 * sixteenths / cost) }
	tcpCost, webCost := int64(memory.TCPCost), int64(memory.HTTPCost)
	if o.tls.listen != "" {
		tcpCost += memory.TLSCost
	}
	if o.http.TLSListen != "" {
		webCost += memory.TLSCost
	}
	tcp, web, unidentified := o.tcp.MaxConnections, o.http.MaxConnections, o.admission.Unidentified
	o.http.MaxConnections, o.admission.Unidentified = o.http.connections(files), o.admission.room(files)
	if web == 0 {
		o.http.MaxConnections = min(o.http.MaxConnections, share(webShare, webCost))
	}
	if unidentified == 0 {
		o.admission.Unidentified = min(o.admission.Unidentified, share(unidentifiedShare, tcpCost))
	}
	o.tcp.MaxConnections, err = connectionLimit(tcp, files, reservedFiles+o.admission.Unidentified+o.http.MaxConnections)
	if err != nil {
		return err
	}
	if tcp == 0 {
		o.tcp.MaxConnections = min(o.tcp.MaxConnections, share(16-webShare-unidentifiedShare, tcpCost))
	}
	if needed := int64(o.tcp.MaxConnections+o.admission.Unidentified)*tcpCost + int64(o.http.MaxConnections)*webCost; needed > room {
		log.Warn().Msgf("the connections that may be open need %d bytes of memory, and the budget has %d for them: raise --memory, or lower --max-connections, --http-max-connections or --max-unidentified", needed, room)
	}
	return nil
}

// connectionLimit returns how many TCP connections the server may hold, given the
// number asked for (0: as many as possible), the limit on open files, and the files
// reserved for other things.
func connectionLimit(asked, files, reserved int) (int, error) {
	most := files - reserved
	if most < 1 {
		return 0, fmt.Errorf("the limit of %d open files leaves none for connections; raise it (ulimit -n) above %d", files, reserved)
	}
	if asked > most {
		return 0, fmt.Errorf("max-connections = %d: the limit of %d open files allows %d; raise it (ulimit -n) to %d or ask for fewer",
			asked, files, most, asked+reserved)
	}
	return cmp.Or(asked, most), nil
}

// connections is the limit on HTTP connections, which are open files too: the configured
// one, or else a share of all files, capped at more than anyone needs.
func (o *httpOptions) connections(files int) int {
	const share, enough = 4, 8192
	switch {
	case o.off():
		return 0
	case o.MaxConnections > 0:
		return o.MaxConnections
	}
	return min(files/share, enough)
}

// checkMemory reports sizes that are too small, and two that contradict each other.
func (o *Options) checkMemory(refuse func(format string, args ...any)) {
	least := settings.Bytes(memory.Least)
	switch {
	case o.memory == 0:
	case o.memory < least:
		refuse("memory = %s: must be at least %s, or 0 for what the machine offers", &o.memory, &least)
	case o.state.memory > 0:
		if b := memory.Divide(int64(o.memory)); int64(o.state.memory) > b.StoreMost() {
			needed, share := settings.Bytes(memory.For(int64(o.state.memory))), settings.Bytes(b.Store.Limit()>>20<<20)
			refuse("kv-memory = %s does not fit into memory = %s, which everything else shares: make that at least %s, or leave kv-memory out, and the state store may take %s",
				&o.state.memory, &o.memory, &needed, &share)
		}
	}
}

// budget divides the memory that check has seen. A machine that was not asked how much of it
// the server may use gives more, up to what it can spare, so that a store gets the size it
// was always configured with; if it cannot, the store gets what there is, and the log says so.
func (o *Options) budget(there memory.Source, log zerolog.Logger) *memory.Budget {
	total, from, store := int64(o.memory), "--memory", int64(o.state.memory)
	if total == 0 {
		total, from = there.Default, there.From
		if store > 0 {
			total = min(max(total, memory.For(store)), max(total, there.Most))
		}
	}
	b := memory.Divide(total)
	if most := b.StoreMost(); store > most {
		needed, room := settings.Bytes(memory.For(store)), settings.Bytes(most>>20<<20)
		log.Warn().Msgf("kv-memory = %s is more than this machine can spare: the state store may take %s. Leave kv-memory out, or set --memory to at least %s if there is so much",
			&o.state.memory, &room, &needed)
		store = most
	}
	if store > 0 {
		b.SetStore(store)
	}
	line := log.Info().Int64("budget", b.Total).Str("from", from).Int64("store", b.Store.Limit()).Int64("documents", b.Documents.Limit())
	if goLimit := os.Getenv("GOMEMLIMIT"); goLimit != "" {
		line.Str("GOMEMLIMIT", goLimit)
	}
	line.Msg("memory")
	return b
}

// keepMemory makes Go's collector keep to the budget until end is called. What the
// environment says of it stays.
func keepMemory(b *memory.Budget) (end func()) {
	before := int64(-1) // as it is
	if os.Getenv("GOMEMLIMIT") == "" {
		before = debug.SetMemoryLimit(b.GoLimit())
	}
	pace := paceHeap(b.Total)
	return func() {
		pace.end()
		debug.SetMemoryLimit(before)
	}
}

// How much garbage is let grow before it is collected. The store keeps everything in
// memory: with Go's 100 percent a process with a large one would take twice what it
// holds. One with a small one would collect many times a second while it is written
// to, so it may in any case let some grow, but no more than a quarter of the budget: the
// pools hold six tenths of it, and at nine Go collects all the time.
const (
	heapGrowth  = 45 // percent of what is in use
	heapGarbage = 128 << 20
)

// growthOf is the percentage for a heap of which live bytes are in use, and which may in
// any case let so much garbage grow.
func growthOf(live, garbage uint64) int {
	const least = 4 << 20 // Go's own for small heaps
	return max(heapGrowth, int(garbage*100/max(live, least)))
}

// heapPace sets anew after each collection how much garbage is let grow until the
// next, unless GOGC says it. GOMEMLIMIT goes before both.
type heapPace struct {
	live    func() uint64     // at open; liveHeap
	set     func(percent int) // at open; debug.SetGCPercent
	garbage uint64            // at open: what growthOf takes
	percent int               // set last
	ended   atomic.Bool
}

// paceHeap begins for a process with so large a budget; end ends it.
func paceHeap(budget int64) *heapPace {
	p := &heapPace{live: liveHeap, set: func(percent int) { debug.SetGCPercent(percent) }, garbage: uint64(min(heapGarbage, budget/4))}
	if os.Getenv("GOGC") == "" {
		p.again()
	}
	return p
}

func (p *heapPace) end() { p.ended.Store(true) }

// again is called once nothing refers to what the last call has made, which is after
// the next collection.
func (p *heapPace) again() {
	if p.ended.Load() {
		return
	}
	// Setting stops everything for a moment: small steps are not worth it.
	if now := growthOf(p.live(), p.garbage); now < p.percent*7/8 || now > p.percent*9/8 {
		p.percent = now
		p.set(now)
	}
	runtime.AddCleanup(&struct{ _ *heapPace }{}, (*heapPace).again, p)
}

// liveHeap is what the last collection has found in use, in bytes.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
