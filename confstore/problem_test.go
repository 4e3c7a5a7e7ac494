package confstore

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func TestBrokenFileIsLoggedWhenItBreaksAgainAndWhenItHeals(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	log := &lines{}
	m.cfg.Log = zerolog.New(log)
	m.reopen()
	m.edit("a.json", `{`, 2000)
	m.Reload()
	require.Equal(t, 1, log.count("not valid JSON"), "once")
	require.Equal(t, 1, log.count("last good version stays in service"))
	since := m.Problems()[0].Since

	m.Store.cfg.Clock.(interface{ BlockUntil(int) }).BlockUntil(2) // the tickers
	m.clock.Advance(10 * time.Minute)
	m.await("the reminder", func() bool { return log.count("still: ") == 1 })
	m.edit("a.json", `{"other`, 2000)
	require.Equal(t, since, m.Problems()[0].Since, "broken in another way is broken since then")

	m.edit("a.json", `2`, 3000)
	require.Empty(t, m.Problems())
	require.Equal(t, 1, log.count("healed"))
}

// TestABaseThatIsNoObjectIsTold, as soon as it is none, and until it is one.
func TestABaseThatIsNoObjectIsTold(t *testing.T) {
	m := newMemKit(t, map[string]string{"_meta.json": `{"conf_inherit":{"heir.json":"base.json"},"app_profile":{"[::1]":{"app1":"heir"}}}`, "heir.json": `{}`, "base.json": `[1]`})
	const noObject, noAddress = `base "base.json" is no JSON object, so nothing of it is inherited`, `no address is written like this, so the section counts for none; write "::1"`
	told := func() (list []string) {
		for _, p := range m.Problems() {
			list = append(list, p.Text)
		}
		return list
	}
	require.Equal(t, []string{noAddress, noObject}, told())
	m.edit("base.json", `{"a":1}`, 2000)
	require.Equal(t, []string{noAddress}, told())
	m.mustSet("base.json", `2`)
	require.Equal(t, []string{noAddress, noObject}, told())
}
