package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// JournalName is the file of a Journal.
const JournalName = "config.journal"

// A journal is rewritten when more than half of it is garbage, unless it is small.
const compactFloor = 1 << 20

// maxScratch is the longest frame whose memory is used again.
const maxScratch = 1 << 20

// Journal is a Ledger in a file of its own, to which each commit appends a frame.
type Journal struct {
	root  atomicfile.Root
	file  atomicfile.File
	size  int64 // where the next frame begins; all before it is durable
	epoch [16]byte
	old   *replayed // as it was found; nil once it was recalled
	frame []byte    // memory of the last one
	// done holds marks that are not durable yet. If there was room they are in a frame at size that
	// the next append overwrites: in a frame of their own they could be torn by a power cut that
	// keeps the frame after it, which looks like damage.
	done []record
	// fault, once set, refuses every further append until all is written anew: after a failed fsync
	// the contents of the disk are unknown, and a second fsync may succeed although data is lost.
	fault error
}

// OpenJournal reads the journal in root or makes a new one. A torn tail is cut off; a damaged journal
// is refused. newEpoch begins another epoch with the contents of the journal. One that can only be
// read is opened as well: Err says why nothing can be committed.
func OpenJournal(root atomicfile.Root, newEpoch bool) (*Journal, error) {
	data, _, err := atomicfile.ReadFile(root, JournalName, math.MaxInt64-1)
	if errors.Is(err, fs.ErrNotExist) {
		return createJournal(root)
	}
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "journal %s: %w", JournalName, err)
	}
	old, err := replay(data)
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "journal %s in the data directory: %w", JournalName, err)
	}
	j := &Journal{root: root, size: old.size, epoch: old.epoch, old: old}
	if newEpoch {
		if _, err := rand.Read(j.epoch[:]); err != nil {
			return nil, err
		}
	}
	err = j.reopen()
	if err == nil && old.torn > 0 {
		err = errors.Join(j.file.Truncate(old.size), j.file.Sync())
	}
	if err == nil && newEpoch {
		data = append(appendJournalHeader(nil, j.epoch), data[journalHeader:j.size]...)
		err = j.replace(data)
	}
	return j.opened(err)
}

func createJournal(root atomicfile.Root) (*Journal, error) {
	j := &Journal{root: root, size: int64(journalHeader), old: newReplayed()}
	if _, err := rand.Read(j.epoch[:]); err != nil {
		return nil, err
	}
	return j.opened(j.replace(appendJournalHeader(nil, j.epoch)))
}

// replace makes data the file.
func (j *Journal) replace(data []byte) error {
	if err := atomicfile.Write(j.root, JournalName, data, atomicfile.Attr{Perm: 0o600}); err != nil {
		return err
	}
	return j.reopen()
}

// opened is the result of opening the journal, given the error of doing so for writing.
func (j *Journal) opened(err error) (*Journal, error) {
	switch {
	case err == nil:
	case atomicfile.IsReadOnly(err):
		j.fault = failed("the journal in the data directory can only be read; nothing is changed until it can be written", err)
	default:
		if j.file != nil {
			j.file.Close()
		}
		return nil, codes.Errorf(codes.Storage, "journal %s: open for writing: %w", JournalName, err)
	}
	return j, nil
}

// failed is an error that writers are shown: without paths of this machine.
func failed(text string, err error) *codes.Error {
	reason := err.Error()
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		reason = path.Err.Error()
	case errors.As(err, &link):
		reason = link.Err.Error()
	}
	return &codes.Error{Code: codes.Storage, Text: text + ": " + reason, Err: err}
}

// Epoch is that of the file's header.
func (j *Journal) Epoch() string { return hex.EncodeToString(j.epoch[:]) }

// Recall is Ledger.Recall.
func (j *Journal) Recall() (Memory, error) {
	old := j.old
	j.old = nil
	return old.memory(), nil
}

// Err is Ledger.Err.
func (j *Journal) Err() error { return j.fault }

// Commit is Ledger.Commit.
func (j *Journal) Commit(c Change) error { return j.append(c.records()) }

func (j *Journal) reopen() error {
	f, err := j.root.OpenFile(JournalName, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file = f
	return nil
}

// append writes records and returns when they are durable. After an error that leaves fault nil
// nothing was written and a later append may succeed, as when the disk was full; otherwise the
// journal is closed for writing.
func (j *Journal) append(records []record) error {
	if j.fault != nil {
		return j.fault
	}
	pending := j.done
	for len(records) > 0 || len(pending) > 0 {
		var frame []byte
		frame, records = j.seal(pending, records)
		pending = nil
		if err := j.write(frame); err != nil {
			return err
		}
		j.done = nil
	}
	return nil
}

// seal makes a frame of as many records as fit. It is valid until the next call.
func (j *Journal) seal(marks, records []record) ([]byte, []record) {
	frame := append(j.frame[:0], make([]byte, frameHeader)...)
	for _, r := range marks {
		frame = appendRecord(frame, r)
	}
	taken := 0
	for taken < len(records) && (taken == 0 || int64(len(frame))+records[taken].size() < maxFrame) {
		frame = appendRecord(frame, records[taken])
		taken++
	}
	sealFrame(frame)
	if j.frame = frame; cap(frame) > maxScratch {
		j.frame = nil
	}
	return frame, records[taken:]
}

func (j *Journal) write(frame []byte) error {
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// Nothing of the frame must be found by a later start.
		if cut := j.file.Truncate(j.size); cut != nil {
			j.fault = failed("the journal in the data directory cannot be written and accepts no changes until it can be written anew", errors.Join(err, cut))
		}
		return failed("the journal in the data directory cannot be written, nothing was changed", err)
	}
	if err := j.file.Sync(); err != nil {
		// Best effort, for the case that the process is restarted and the machine
		// is not: the caller is told that the change did not happen.
		cut := j.file.Truncate(j.size)
		j.fault = failed("the journal in the data directory could not be made durable and accepts no changes until it can be written anew", errors.Join(err, cut))
		return j.fault
	}
	j.size += int64(len(frame))
	return nil
}

// Placed is Ledger.Placed. It need not be durable at once: it only helps a later restart to distinguish
// an unfinished write from old contents that a person has put back.
func (j *Journal) Placed(seqs ...uint64) {
	if j.fault != nil {
		return
	}
	for _, seq := range seqs {
		j.done = append(j.done, record{kind: recordDone, seq: seq})
	}
	frame, _ := j.seal(j.done, nil)
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// The next append writes here again.
		_ = j.file.Truncate(j.size)
	}
}

// TakeBack is Ledger.TakeBack. If there is no room for it now it is put in front of the next write: a
// restart must not carry out a write whose writer was told that it failed.
func (j *Journal) TakeBack(seqs ...uint64) error {
	aborts := make([]record, len(seqs))
	for i, seq := range seqs {
		aborts[i] = record{kind: recordAbort, seq: seq}
	}
	err := j.append(aborts)
	if err != nil && j.fault == nil {
		j.done = append(j.done, aborts...)
	}
	return err
}

// Untidy is Ledger.Untidy.
func (j *Journal) Untidy(live int64) bool { return j.size > compactFloor && j.size > 2*live }

// Renew is Ledger.Renew. It also helps after a failed fsync: the new file is none of whose
// contents is unknown.
func (j *Journal) Renew(all Change) error {
	if err := j.compact(all.records()); err != nil {
		return failed("the journal in the data directory cannot be written, nothing was changed", err)
	}
	j.fault = nil
	return nil
}

// compact replaces the file by one that holds only records. After an error the old file remains in
// use, unless it is not known which one is in place.
func (j *Journal) compact(records []record) error {
	data := appendJournalHeader(nil, j.epoch)
	for rest := records; len(rest) > 0; {
		var frame []byte
		frame, rest = j.seal(nil, rest)
		data = append(data, frame...)
	}
	pending, err := atomicfile.Prepare(j.root, JournalName, data, atomicfile.Attr{Perm: 0o600})
	if err != nil {
		return fmt.Errorf("journal compaction: %w", err)
	}
	if err := pending.Rename(); err != nil {
		return errors.Join(fmt.Errorf("journal compaction: %w", err), pending.Discard())
	}
	if err := errors.Join(j.root.SyncDir("."), j.reopen()); err != nil {
		j.fault = failed("the journal in the data directory could not be replaced and accepts no changes until it can be written anew", err)
		return j.fault
	}
	j.size, j.done = int64(len(data)), nil
	return nil
}

// Close is Ledger.Close.
func (j *Journal) Close() error {
	var err error
	if len(j.done) > 0 && j.fault == nil {
		err = j.append(nil)
	}
	if j.file != nil {
		err = errors.Join(err, j.file.Close())
	}
	return err
}
