package kvstore

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/kv"
)

// The audit's lines about a group of transactions are written with the group, as archived
// entries of its last commit: what was acknowledged has its line, and what has one took effect. The
// chain goes on behind what the log has, whichever store wrote that.

// lineWriter writes the lines.
type lineWriter struct {
	whats []string // room for the next one
}

// note has the audit know of the transaction that has just been finished.
func (c *lineWriter) note(cfg *Config, txn *kv.Txn, result *kv.Result, rev kv.Revision, millis int64) {
	switch {
	case cfg.Trail == nil:
	case len(txn.Note) > 0:
		for i := range txn.Note {
			e := txn.Note[i]
			e.By = cmp.Or(e.By, txn.Actor)
			cfg.Trail.Add(&e, millis, revOf(&e, rev))
		}
	case txn.Actor != nil && !cfg.TrailNotesOnly:
		if e, ok := c.told(txn, result); ok {
			cfg.Trail.Add(&e, millis, int64(rev))
		}
	}
}

// revOf is the revision that a line names: that of a change.
func revOf(e *access.Event, rev kv.Revision) int64 {
	switch e.Kind {
	case access.EventChange, access.EventPermission, access.EventToken:
		return int64(rev)
	}
	return 0
}

// told is what the operations of a transaction say of it. It is not told of what its owner keeps
// for itself.
func (c *lineWriter) told(txn *kv.Txn, result *kv.Result) (e access.Event, ok bool) {
	e = access.Event{Kind: access.EventChange, By: txn.Actor, What: c.whats[:0]}
	ops := branch(txn, result.Held)
	for i := range ops {
		op := &ops[i]
		what := ""
		if op.Writes() {
			what = thing(op, &result.Ops[i])
		}
		if what == "" {
			continue
		}
		switch e.Do {
		case "":
			e.Do = op.Kind.String()
		case op.Kind.String():
		default:
			e.Do = "txn"
		}
		switch {
		case slices.Contains(e.What, what):
		case len(e.What) < audit.MostNames:
			e.What = append(e.What, what)
		default:
			e.More++
		}
	}
	c.whats = e.What
	return e, len(e.What) > 0
}

// thing is what an operation is about, with its class; "" for what the server keeps of its own.
func thing(op *kv.Op, r *kv.OpResult) string {
	name := op.Key
	switch op.Kind {
	case kv.OpGrant:
		return "lease:" + strconv.FormatInt(int64(r.Lease.ID), 10)
	case kv.OpRevoke:
		return "lease:" + strconv.FormatInt(int64(op.Lease), 10)
	case kv.OpDeletePrefix:
		name += "*"
	}
	if op.NS == "" || op.NS[0] != '@' || kv.Guarded(op.NS) == "" {
		return "kv:" + op.NS + "/" + name
	}
	switch class, rest, named := strings.Cut(op.NS[1:], "/"); {
	case class == "landing", op.NS == kv.AccessNamespace, kv.Archived(op.NS), kv.OfAudit(op.NS): // who keeps tokens, sessions and keys notes what is done to them
		return ""
	case op.NS == kv.ReviewNamespace && op.Kind == kv.OpIncr: // by nothing, for its bounds
		return ""
	case named:
		return class + ":" + rest + "/" + name
	default:
		return class + ":" + name
	}
}

// seal puts the lines of the group into its last commit.
func (p *proposal) seal(t *audit.Trail, millis int64) {
	if t == nil || len(p.commits) == 0 {
		return
	}
	blocks := t.Blocks()
	if len(blocks) == 0 {
		return
	}
	last := &p.commits[len(p.commits)-1]
	for i := range blocks {
		b := &blocks[i]
		last.Archive = append(last.Archive, kv.Event{Kind: kv.Put, Entry: &kv.Entry{
			NS: kv.AuditLines, Key: b.Key(), Value: kv.BytesValue(b.Lines),
			Create: last.Revision, Mod: last.Revision, Version: 1, Updated: millis,
		}})
	}
	last.Archive = sortedArchive(last.Archive)
}

// publishTrail has those know who follow the audit.
func (s *Store) publishTrail(commits []Commit) {
	if s.cfg.Trail == nil {
		return
	}
	for i := range commits {
		for _, event := range commits[i].Archive {
			if e := event.Entry; e.NS == kv.AuditLines && !e.Deleted() {
				if err := s.cfg.Trail.Published(e.Key, e.Value.Data); err != nil {
					s.cfg.Log.Error().Err(err).Msg("the audit goes on with a line that does not follow the one before")
				}
			}
		}
	}
}

// resumeTrail has the audit go on behind the last line that the log has; newest is that of the
// transactions that are in no tables yet, if there is one.
func (s *Store) resumeTrail(newest *kv.Entry) error {
	if s.cfg.Trail == nil {
		return nil
	}
	if newest == nil {
		var err error
		if newest, err = s.lastLines(); err != nil {
			return err
		}
	}
	var head audit.Head
	if newest != nil {
		var err error
		if _, head, err = audit.ParseBlock(newest.Key, newest.Value.Data); err != nil {
			return err
		}
	}
	s.cfg.Trail.Resume(head)
	return nil
}

// lastLines finds the last block of lines by halving: archives are listed forward only. nil: there
// is none.
func (s *Store) lastLines() (last *kv.Entry, err error) {
	behind := func(seq int64) (*kv.Entry, error) {
		after := ""
		if seq > 0 {
			after = audit.KeyOf(seq)
		}
		page, err := s.log.ListArchive(kv.List{NS: kv.AuditLines, After: after, Limit: 1, MaxBytes: 1})
		if err != nil || len(page.Entries) == 0 {
			return nil, err
		}
		return page.Entries[0], nil
	}
	from, step := int64(0), int64(1)
	for step > 0 {
		e, err := behind(from)
		if err != nil {
			return nil, err
		}
		if e == nil { // from was too far
			break
		}
		last = e
		b, _, err := audit.ParseBlock(e.Key, e.Value.Data)
		if err != nil {
			return nil, err
		}
		from, step = b.Last+step, step*2
	}
	for step /= 2; step > 0; step /= 2 {
		b, _, err := audit.ParseBlock(last.Key, last.Value.Data)
		if err != nil {
			return nil, err
		}
		e, err := behind(b.Last + step - 1)
		if err != nil {
			return nil, err
		}
		if e != nil {
			last = e
		}
	}
	return last, nil
}
