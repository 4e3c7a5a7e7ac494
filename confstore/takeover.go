package confstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/confstore/journal"
	"confcenter/confstore/placement"
	"confcenter/meta"
)

// openLog opens the log. What a version before has left in a journal is taken over into it, once:
// then the journal has another name.
func (s *Store) openLog(marks *placement.Marks, restored bool) (*doclog.Log, error) {
	ctx := context.Background()
	old, err := journal.Read(s.data, func(d journal.Document) bool {
		r := s.directory.read(d.Name, true)
		s.directory.room.done([]reading{r})
		return r.missing == d.Deleted && (d.Deleted || r.fault == "" && string(r.text) == string(d.Text))
	})
	if err != nil {
		return nil, err
	}
	epoch := ""
	switch {
	case restored:
		epoch = s.cfg.State.Identity()
	case old != nil:
		epoch = old.Epoch
	}
	log, err := doclog.Open(ctx, s.cfg.State, epoch)
	if err == nil && restored {
		err = s.reissue(log)
	}
	if err != nil || old == nil {
		return log, err
	}
	c, err := s.takenOver(ctx, log, old)
	if err != nil {
		return nil, err
	}
	if !c.Empty() {
		if _, err := log.Commit(ctx, []doclog.Change{c}); err != nil {
			return nil, err
		}
	}
	// The version before has put in place what it has written: all else are edits.
	if err := marks.Advance(s.cfg.State.Revision()); err != nil {
		return nil, codes.Errorf(codes.Storage, "the data directory cannot be written: %w", err)
	}
	aside, err := s.setJournalAside()
	if err != nil {
		return nil, err
	}
	s.cfg.Log.Info().Int("documents", len(c.Versions)).Str("journal", aside).Msg("the journal of a version before was taken over into the state store; it stays under this name")
	return log, nil
}

// takenOver is what a journal knows and the log does not, or not so well: a version before may
// have run again since it was taken over.
func (s *Store) takenOver(ctx context.Context, log *doclog.Log, old *journal.Memory) (doclog.Change, error) {
	c := doclog.Change{Seq: old.Seq, By: by(onDisk, s.cfg.Clock.Now())}
	c.By.Comment = "taken over from " + journal.Name
	rules := rulesOf(old)
	for _, d := range old.Documents {
		if nameFault(d.Name) != "" { // older versions took in files of any name while they ran
			continue
		}
		known, err := log.Document(d.Name)
		if err != nil {
			return c, err
		}
		if known.N > 0 && known.Served >= d.Served {
			continue
		}
		v := doclog.Version{Name: d.Name, Served: d.Served, Given: d.Given, Deleted: d.Deleted}
		if !d.Deleted {
			v.File = s.fileOf(d)
		}
		c.Versions = append(c.Versions, v)
		list := doclog.List{Name: d.Name, Floor: d.Floor}
		if digest := rules.listDigest(d.Name); [16]byte(digest[:16]) == d.List {
			list.Digest = digest
		} else {
			copy(list.Digest[:], d.List[:]) // another than any there is now
		}
		if d.Listed {
			c.Lists = append(c.Lists, list)
		}
	}
	return c, ctx.Err()
}

func rulesOf(old *journal.Memory) *rules {
	none, _ := parseRules(nil)
	for _, d := range old.Documents {
		if d.Name == meta.FileName && !d.Deleted {
			if rules, err := parseRules(d.Text); err == nil {
				return rules
			}
		}
	}
	return none
}

// fileOf are the bytes of a document's file: those on the disk, if they say the same.
func (s *Store) fileOf(d journal.Document) []byte {
	r := s.directory.read(d.Name, true)
	s.directory.room.done([]reading{r})
	switch {
	case r.fault == "" && !r.missing && string(r.text) == string(d.Text):
		return r.data
	case d.File != nil:
		return d.File
	}
	return ownLayout.Append(nil, d.Text)
}

// setJournalAside gives the journal a name by which no program opens it.
func (s *Store) setJournalAside() (string, error) {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.taken-over-%d", journal.Name, i)
		if _, err := s.data.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := s.data.Rename(journal.Name, name)
		if err == nil {
			err = s.data.SyncDir(".")
		}
		if err != nil {
			return "", codes.Errorf(codes.Storage, "the journal in the data directory cannot be renamed after it was taken over: %w", err)
		}
		return name, nil
	}
}
