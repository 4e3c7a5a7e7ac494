package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"confcenter/kv"
	"confcenter/kvstore"
)

// Inspector checks the rows of a store, of a Copy or of a directory, as they come by: that each
// can be read and is in its place, and that nothing is missing in between. It keeps nothing but
// where it is.
type Inspector struct {
	// Entry, if it is set, is called for each current entry, archived ones included, and then for
	// what the log behind the tables makes of them; deleted ones come with that.
	Entry func(*kv.Entry) error

	last     []byte // key
	tables   meta
	newest   kv.Revision // of the log so far, or of the tables
	begun    bool        // newest is of the log
	complete bool        // there was a meta row
}

// Revision is that of the newest transaction so far.
func (i *Inspector) Revision() kv.Revision { return max(i.newest, i.tables.revision) }

// Row checks the next row; key and value are not kept.
func (i *Inspector) Row(key, value []byte) error {
	if len(key) == 0 {
		return errKey
	}
	if bytes.Compare(key, i.last) <= 0 {
		return fmt.Errorf("row %q is behind row %q", brief(key), brief(i.last))
	}
	i.last = append(i.last[:0], key...)
	if err := i.row(key, value); err != nil {
		return fmt.Errorf("row %q: %w", brief(key), err)
	}
	return nil
}

// brief is a key for people.
func brief(key []byte) []byte { return key[:min(len(key), 80)] }

func (i *Inspector) row(key, value []byte) error {
	number, numbered := splitNumber(key)
	switch key[0] {
	case currentKind, archiveKind:
		e, err := readEntry(key, value)
		if err != nil {
			return err
		}
		if !kv.Archived(e.NS) && key[0] == archiveKind || e.Deleted() { // see stray
			return errors.New("an entry among those of another kind")
		}
		return i.entry(e)
	case historyKind:
		return checkHistory(key, value)
	case cutKind:
		if _, n := binary.Uvarint(value); n <= 0 {
			return errKey
		}
		return nil
	case identKind:
		if len(key) != 1 || len(value) != 2*identityBytes {
			return errors.New("an identity of the wrong length")
		}
		return nil
	case metaKind:
		if len(key) != 1 {
			return errKey
		}
		var err error
		i.complete = true
		i.tables, err = decodeMeta(value)
		return err
	}
	if !numbered {
		return errKey
	}
	var err error
	switch key[0] {
	case epochKind:
		_, err = decodeEpoch(number, value)
	case partKind:
		_, err = decodePart(number, value)
	case leaseKind:
		_, err = decodeLease(number, value)
	case tokenKind:
		_, err = decodeToken(number, value)
	case gapKind:
		_, err = decodeGap(number, value)
	case logKind:
		err = i.group(kv.Revision(number), value)
	default:
		err = errors.New("a row of a kind that this version does not know")
	}
	return err
}

func readEntry(key, value []byte) (*kv.Entry, error) {
	ns, name, ok := splitName(key[1:])
	if !ok {
		return nil, errKey
	}
	e := &kv.Entry{NS: string(ns), Key: string(name)}
	if err := kv.CheckPair(e.NS, e.Key); err != nil {
		return nil, err
	}
	return e, decodeEntry(e, value)
}

// checkHistory checks a superseded entry.
func checkHistory(key, value []byte) error {
	const part, rev = 1 + 8, 1 + 8
	if len(key) < part+rev {
		return errKey
	}
	ns, name, ok := splitName(key[part : len(key)-rev])
	if !ok || key[len(key)-rev] != 0 {
		return errKey
	}
	if err := kv.CheckPair(string(ns), string(name)); err != nil {
		return err
	}
	return decodeEntry(&kv.Entry{}, value)
}

// group checks a record of the log, which is contiguous.
func (i *Inspector) group(first kv.Revision, value []byte) error {
	g, err := decodeGroup(value)
	if err != nil {
		return err
	}
	switch {
	case g.commits[0].Revision != first:
		return fmt.Errorf("it begins with revision %d", g.commits[0].Revision)
	case g.last() <= i.tables.logFloor: // it is not needed any more, and may or may not be there
		return nil
	case i.begun && g.prev != i.newest, !i.begun && g.prev > i.tables.logFloor:
		return fmt.Errorf("%w: it follows revision %d", errGap, g.prev)
	}
	i.begun, i.newest = true, g.last()
	for j := range g.commits {
		if c := &g.commits[j]; c.Revision > i.tables.revision {
			if err := i.commit(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *Inspector) commit(c *kvstore.Commit) error {
	for _, events := range [2][]kv.Event{c.Events, c.Archive} {
		for j := range events {
			e := events[j].Entry
			if err := kv.CheckPair(e.NS, e.Key); err != nil {
				return err
			}
			if err := i.entry(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *Inspector) entry(e *kv.Entry) error {
	if n := len(e.Value.Data); n > kv.MaxValue {
		return fmt.Errorf("a value of %d bytes, the limit is %d", n, kv.MaxValue)
	}
	if i.Entry == nil {
		return nil
	}
	return i.Entry(e)
}

// End checks what can be known only behind the last row.
func (i *Inspector) End() error {
	switch {
	case !i.complete:
		return errors.New("the row that says how far the tables reach is missing")
	case i.begun && i.newest < i.tables.revision:
		return fmt.Errorf("%w: the log ends at revision %d, before the tables do at %d", errGap, i.newest, i.tables.revision)
	}
	return nil
}
