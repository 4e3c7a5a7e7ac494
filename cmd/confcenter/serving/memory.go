package serving

import (
	"os"
	"runtime/debug"

	"github.com/rs/zerolog"

	"confcenter/internal/memory"
	"confcenter/internal/settings"
)

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
