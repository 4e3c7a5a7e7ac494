package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNextIsTheFirstThatIsAllowed asks random patterns about all short names in their order.
func TestNextIsTheFirstThatIsAllowed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := []string{"a", "b", "\x00", "\xff"}
	names := []string{""}
	for from, depth := 0, 0; depth < 4; depth++ {
		end := len(names)
		for _, name := range names[from:end] {
			for _, l := range letters {
				names = append(names, name+l)
			}
		}
		from = end
	}
	slices.Sort(names)
	for range 300 {
		var list []says
		for range random.IntN(6) {
			text := names[random.IntN(len(names))]
			s := says{pattern: pattern{class: KV, text: text[:min(len(text), 3)], many: random.IntN(2) == 0}, allow: Read}
			if random.IntN(3) == 0 {
				s.allow, s.deny = 0, Read
			}
			list = append(list, s)
		}
		p := newPermits(slices.Clone(list))
		next := ""
		found := false // the next of those that are allowed, coming from behind
		for i := len(names) - 1; i >= 0; i-- {
			if p.May(Read, KV, []byte(names[i])) {
				next, found = names[i], true
			}
			got, ok := p.Next(Read, KV, names[i])
			require.True(t, ok || !found, "%v %q", list, names[i])
			if ok {
				require.True(t, p.May(Read, KV, []byte(got)) && got >= names[i], "%v %q: %q", list, names[i], got)
			}
			if ok && found {
				require.LessOrEqual(t, got, next, "%v %q", list, names[i])
			}
		}
	}
	_, ok := (*Permits)(nil).Next(Read, KV, "")
	require.False(t, ok)
}

// TestNextNeedsAllVerbs: some of them are not enough.
func TestNextNeedsAllVerbs(t *testing.T) {
	p := newPermits([]says{{pattern{KV, "a", true}, Read, 0}, {pattern{KV, "ab", true}, History, 0}})
	name, ok := p.Next(Read|History, KV, "")
	require.True(t, ok)
	require.Equal(t, "ab", name)
	_, ok = p.Next(Read|History, KV, "ac")
	require.False(t, ok)
}

func BenchmarkNext(b *testing.B) {
	var list []says
	for i := range 10_000 {
		list = append(list, says{pattern{KV, fmt.Sprintf("ns\x00%05d", i), false}, 0, Read})
	}
	list = append(list, says{pattern{KV, "ns\x00", true}, Read, 0})
	p := newPermits(list)
	from := strings.Clone("ns\x0005000")
	for b.Loop() {
		if _, ok := p.Next(Read, KV, from); !ok {
			b.Fatal("nothing")
		}
	}
}
