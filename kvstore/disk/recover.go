package disk

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"
)

// recover loads the tables and then the log behind them.
func (k *keeper) recover(load kvstore.Loader) (kv.Revision, error) {
	row, closer, err := k.db.Get(metaKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, codes.Errorf(codes.Storage, "the store is damaged: the database has lost its meta row. %s", "Restore the data directory from a copy")
	}
	if err != nil {
		return 0, damaged("meta", err)
	}
	k.done, err = decodeMeta(row)
	_ = closer.Close()
	if err != nil {
		return 0, damaged("meta", err)
	}
	strays := k.newTables()
	defer strays.discard()
	for _, kind := range []struct {
		kind byte
		what string
		row  func(key, value []byte) error
	}{
		{epochKind, "epochs", rowLoader(decodeEpoch, func(e epoch) { k.epochs = append(k.epochs, e) })},
		{gapKind, "gaps", rowLoader(decodeGap, func(g gap) { k.gaps = append(k.gaps, g) })},
		{partKind, "parts of history", rowLoader(decodePart, func(p part) { k.parts = append(k.parts, p) })},
		{currentKind, "current entries", entryLoader(func(e *kv.Entry) {
			if kv.Archived(e.NS) {
				strays.stray(e)
				return
			}
			k.gate.live.Add(rowBytes(e))
			load.Entry(e)
		})},
		{leaseKind, "leases", rowLoader(decodeLease, load.Lease)},
		{tokenKind, "request tokens", rowLoader(decodeToken, load.Token)},
	} {
		if err := k.scan([]byte{kind.kind}, []byte{kind.kind + 1}, kind.row); err != nil {
			return 0, damaged(kind.what, err)
		}
	}
	if len(strays.rows) > 0 && !k.cfg.ReadOnly {
		if err := strays.add(); err != nil {
			return 0, refused(err)
		}
	}
	return k.replay(load)
}

// scan calls row for every row in a range, in order. The bytes are valid only during the
// call.
func (d *database) scan(lower, upper []byte, row func(key, value []byte) error) error {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = row(it.Key(), value)
		}
	}
	if closed := it.Close(); err == nil {
		err = closed
	}
	return err
}

var errKey = errors.New("a key that cannot be read")

// rowLoader decodes rows whose key is a number.
func rowLoader[T any](decode func(number int64, row []byte) (T, error), load func(T)) func(key, value []byte) error {
	return func(key, value []byte) error {
		number, ok := splitNumber(key)
		if !ok {
			return errKey
		}
		row, err := decode(number, value)
		if err == nil {
			load(row)
		}
		return err
	}
}

// entryLoader decodes entries. Those of a namespace come together and share its text.
func entryLoader(load func(*kv.Entry)) func(key, value []byte) error {
	namespace := ""
	return func(key, value []byte) error {
		ns, name, ok := splitName(key[1:])
		if !ok {
			return errKey
		}
		if string(ns) != namespace {
			namespace = string(ns)
		}
		e := &kv.Entry{NS: namespace, Key: string(name)}
		if err := decodeEntry(e, value); err != nil {
			return err
		}
		load(e)
		return nil
	}
}

func decodeLease(id int64, row []byte) (kvstore.LeaseChange, error) {
	r := &reader{rest: row}
	r.version()
	l := r.lease(kv.LeaseID(id))
	if len(r.rest) > 0 {
		l.Owner = r.owner()
	}
	return l, r.end("lease")
}

func decodeToken(_ int64, row []byte) (*kvstore.Token, error) {
	r := &reader{rest: row}
	version := r.version()
	t := r.token()
	if version == askersVersion {
		t.Who = r.string()
	}
	return t, r.end("request token")
}

// errGap ends a replay: something of the log is missing or cannot be read.
var errGap = errors.New("the log has a gap")

// replay reads the log behind the tables and returns the newest revision. Each record
// names the revision before it, which reveals gaps.
func (k *keeper) replay(load kvstore.Loader) (kv.Revision, error) {
	newest := k.done.revision
	from := numberKey(nil, logKind, int64(newest)+1)
	err := k.scan(from, []byte{logKind + 1}, func(_, value []byte) error {
		g, err := decodeGroup(value)
		if err != nil {
			return fmt.Errorf("%w: %w", errGap, err)
		}
		if g.prev != newest {
			return fmt.Errorf("%w: revision %d is followed by a group whose predecessor is %d", errGap, newest, g.prev)
		}
		for i := range g.commits {
			load.Commit(&g.commits[i])
		}
		read := newAppended(g.commits, len(value))
		read.recovered = true
		read.holds += read.rows + entrySize*int64(read.events) // there is no Prev to count
		k.keep(read)
		newest = g.last()
		return nil
	})
	if err == nil {
		return newest, nil
	}
	if !errors.Is(err, errGap) || !k.cfg.AcceptLoss {
		return 0, codes.Errorf(codes.Storage, "the store is damaged: log: %w. %s", err, lossRemedy)
	}
	return newest, k.cutLog(newest)
}

// cutLog removes what follows a gap, so that it is not mistaken for a continuation, and
// makes sure that none of its revisions is used again.
func (k *keeper) cutLog(newest kv.Revision) error {
	k.cfg.Log.Error().Int64("revision", int64(newest)).Msg("the log has a gap; accepting the loss of everything after it")
	lower := numberKey(nil, logKind, int64(newest)+1)
	last := newest
	err := k.scan(lower, []byte{logKind + 1}, func(key, value []byte) error {
		if n, ok := splitNumber(key); ok {
			last = max(last, kv.Revision(n))
		}
		if g, err := decodeGroup(value); err == nil {
			last = max(last, g.last())
		}
		return nil
	})
	if err == nil {
		err = k.db.DeleteRange(lower, []byte{logKind + 1}, pebble.Sync)
	}
	if err != nil {
		return refused(err)
	}
	return k.acceptLoss(last)
}

// acceptLoss continues above revision used, so that none is used twice, and forgets changes
// and versions up to it, because some are missing.
func (k *keeper) acceptLoss(used kv.Revision) error {
	k.cfg.Log.Error().Int64("revision", int64(used)).Msg("acknowledged writes are lost; accepting the loss")
	if err := k.materialise(); err != nil {
		return refused(err)
	}
	k.done.revision, k.done.logFloor, k.done.historyFloor = used, used, used
	set := k.newTables()
	defer set.discard()
	set.small(metaKey, k.done.encode())
	return refused(set.add())
}

// withDefaults returns load with the missing functions replaced by ones that do nothing.
func withDefaults(load kvstore.Loader) kvstore.Loader {
	if load.Entry == nil {
		load.Entry = func(*kv.Entry) {}
	}
	if load.Lease == nil {
		load.Lease = func(kvstore.LeaseChange) {}
	}
	if load.Token == nil {
		load.Token = func(*kvstore.Token) {}
	}
	if load.Commit == nil {
		load.Commit = func(*kvstore.Commit) {}
	}
	return load
}
