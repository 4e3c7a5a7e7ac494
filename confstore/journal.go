package confstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

const (
	journalName = "config.journal"
	lockName    = "config.lock"
	// A journal is rewritten when more than half of it is garbage, but not while
	// it is small anyway.
	compactFloor = 1 << 20
)

// journal is the open file. Only the store's goroutine uses it.
type journal struct {
	root  atomicfile.Root
	file  atomicfile.File
	size  int64 // where the next frame begins; all before it is durable
	epoch [16]byte
	// done holds marks that are not durable yet. If there was room they stand in a frame at size that
	// the next append writes over: were they a frame of their own, a power cut
	// could tear it and keep the one behind it, which looks like damage.
	done []record
	// fault, once set, refuses every further append: after a failed fsync nobody
	// knows what is on the disk, and a second one may succeed without meaning it.
	fault error
}

// openJournal reads the journal in root or makes a new one, and cuts off a torn
// tail.
func openJournal(root atomicfile.Root, newEpoch bool) (*journal, *replayed, error) {
	data, _, err := atomicfile.ReadFile(root, journalName, math.MaxInt64-1)
	if errors.Is(err, fs.ErrNotExist) {
		return createJournal(root)
	}
	if err != nil {
		return nil, nil, codes.Errorf(codes.Storage, "journal %s: %w", journalName, err)
	}
	old, err := replay(data)
	if err != nil {
		return nil, nil, codes.Errorf(codes.Storage, "journal %s in the data directory: %w", journalName, err)
	}
	if newEpoch {
		if _, err := rand.Read(old.epoch[:]); err != nil {
			return nil, nil, err
		}
		data = append(appendJournalHeader(nil, old.epoch), data[journalHeader:]...)
		if err := atomicfile.Write(root, journalName, data, atomicfile.Attr{Perm: 0o600}); err != nil {
			return nil, nil, codes.Errorf(codes.Storage, "journal %s: begin a new epoch: %w", journalName, err)
		}
	}
	j := &journal{root: root, size: old.size, epoch: old.epoch}
	if err := j.reopen(); err != nil {
		return nil, nil, err
	}
	if old.torn > 0 {
		if err := errors.Join(j.file.Truncate(old.size), j.file.Sync()); err != nil {
			j.file.Close()
			return nil, nil, codes.Errorf(codes.Storage, "journal %s: cut torn tail: %w", journalName, err)
		}
	}
	return j, old, nil
}

func createJournal(root atomicfile.Root) (*journal, *replayed, error) {
	j := &journal{root: root, size: int64(journalHeader)}
	if _, err := rand.Read(j.epoch[:]); err != nil {
		return nil, nil, err
	}
	fresh := newReplayed()
	fresh.epoch = j.epoch
	header := appendJournalHeader(nil, j.epoch)
	if err := atomicfile.Write(root, journalName, header, atomicfile.Attr{Perm: 0o600}); err != nil {
		return nil, nil, codes.Errorf(codes.Storage, "journal %s: create: %w", journalName, err)
	}
	if err := j.reopen(); err != nil {
		return nil, nil, err
	}
	return j, fresh, nil
}

func (j *journal) reopen() error {
	f, err := j.root.OpenFile(journalName, os.O_RDWR, 0)
	if err != nil {
		return codes.Errorf(codes.Storage, "journal %s: open: %w", journalName, err)
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file = f
	return nil
}

// append writes records and returns when they are durable. After an error that
// leaves fault nil nothing was written and a later append may work (the disk was
// full); otherwise the journal is closed for writing.
func (j *journal) append(records []record) error {
	if j.fault != nil {
		return j.fault
	}
	pending := j.done
	for len(records) > 0 || len(pending) > 0 {
		var frame []byte
		frame, records = j.frame(pending, records)
		pending = nil
		if err := j.write(frame); err != nil {
			return err
		}
		j.done = nil
	}
	return nil
}

// frame takes as many records as fit.
func (j *journal) frame(marks, records []record) ([]byte, []record) {
	frame := make([]byte, frameHeader)
	for _, r := range marks {
		frame = appendRecord(frame, r)
	}
	taken := 0
	for taken < len(records) && (taken == 0 || int64(len(frame))+records[taken].size() < maxFrame) {
		frame = appendRecord(frame, records[taken])
		taken++
	}
	sealFrame(frame)
	return frame, records[taken:]
}

func (j *journal) write(frame []byte) error {
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// Nothing of the frame must be found by a later start.
		if cut := j.file.Truncate(j.size); cut != nil {
			j.fault = codes.Errorf(codes.Storage, "the journal cannot be written and accepts no changes until a restart: %w", errors.Join(err, cut))
		}
		return codes.Errorf(codes.Storage, "the journal cannot be written, nothing was changed: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		// Best effort, for the case that the process is restarted and the machine
		// is not: the caller is told that the change did not happen.
		cut := j.file.Truncate(j.size)
		j.fault = codes.Errorf(codes.Storage, "the journal could not be made durable and accepts no changes until a restart: %w", errors.Join(err, cut))
		return j.fault
	}
	j.size += int64(len(frame))
	return nil
}

// markDone notes that the intent with sequence seq is on the disk. Nobody waits
// for it to be durable: it only helps a later start to tell an unfinished intent
// from a person who put the old contents back.
func (j *journal) markDone(seq uint64) {
	if j.fault != nil {
		return
	}
	j.done = append(j.done, record{kind: recordDone, seq: seq})
	frame, _ := j.frame(j.done, nil)
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// The next append writes here again.
		_ = j.file.Truncate(j.size)
	}
}

// takeBack undoes the intent with sequence seq. If there is no room for that now
// it stands in front of whatever is written next: a start must not carry out what
// its writer was told has failed.
func (j *journal) takeBack(seq uint64) error {
	abort := record{kind: recordAbort, seq: seq}
	err := j.append([]record{abort})
	if err != nil && j.fault == nil {
		j.done = append(j.done, abort)
	}
	return err
}

// wantsCompaction tells whether garbage outweighs what counts.
func (j *journal) wantsCompaction(live int64) bool {
	return j.fault == nil && j.size > compactFloor && j.size > 2*live
}

// compact replaces the file by one that holds only records. After an error the old
// file goes on being used, unless it is no longer known which one is in place.
func (j *journal) compact(records []record) error {
	data := appendJournalHeader(nil, j.epoch)
	for rest := records; len(rest) > 0; {
		var frame []byte
		frame, rest = j.frame(nil, rest)
		data = append(data, frame...)
	}
	pending, err := atomicfile.Prepare(j.root, journalName, data, atomicfile.Attr{Perm: 0o600})
	if err != nil {
		return fmt.Errorf("journal compaction: %w", err)
	}
	if err := pending.Rename(); err != nil {
		return errors.Join(fmt.Errorf("journal compaction: %w", err), pending.Discard())
	}
	if err := errors.Join(j.root.SyncDir("."), j.reopen()); err != nil {
		j.fault = codes.Errorf(codes.Storage, "the journal could not be replaced and accepts no changes until a restart: %w", err)
		return j.fault
	}
	j.size, j.done = int64(len(data)), nil
	return nil
}

func (j *journal) close() error {
	var err error
	if len(j.done) > 0 && j.fault == nil {
		err = j.append(nil)
	}
	return errors.Join(err, j.file.Close())
}
