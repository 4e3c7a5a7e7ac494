package ledger

import (
	"encoding/json"
	"fmt"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// watcher follows the namespace across all that happens and checks what it is told:
// revisions rise, and nothing is told twice.
type watcher struct {
	rev    int64
	told   map[string]map[int64]string // by key and revision
	floor  int64                       // changes up to here need not have been told: it had to begin anew
	lapses int
	anew   bool // the state is being told
}

func (w *watcher) run(p *servertest.Peer) error {
	for {
		f, err := p.TryNext()
		if err != nil {
			return nil // killed, or closed by us
		}
		if err := w.take(f); err != nil {
			return err
		}
	}
}

// take records one push. No transaction here is long enough to be told in parts.
func (w *watcher) take(f servertest.Frame) error {
	var push reply
	if err := json.Unmarshal([]byte(f.Body), &push); err != nil || f.Command != protocol.KVEvent {
		return fmt.Errorf("unexpected %s (%v)", f.String(), err)
	}
	switch {
	case push.Resync != 0:
		w.anew, w.lapses = true, w.lapses+1
		return nil
	case w.anew:
		if push.Synced != 0 {
			w.anew, w.rev, w.floor = false, push.Rev, push.Rev
		}
		return nil
	case push.More != 0:
		return fmt.Errorf("unexpected %s", f.String())
	}
	before := w.rev
	for _, e := range push.Events {
		if e.Mod <= before || e.Mod < w.rev {
			return fmt.Errorf("%s: revision %d after %d", e.Key, e.Mod, w.rev)
		}
		w.rev = e.Mod
		if w.told[e.Key] == nil {
			w.told[e.Key] = map[int64]string{}
		}
		if _, twice := w.told[e.Key][e.Mod]; twice {
			return fmt.Errorf("%s: revision %d is told twice", e.Key, e.Mod)
		}
		w.told[e.Key][e.Mod] = e.Value
	}
	return nil
}
