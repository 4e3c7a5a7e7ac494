// Package log keeps what a store of configurations has to remember as entries of the state
// store: each change of documents is a transaction there, so that documents and state have one
// order, one history and one backup.
//
// Where it lies:
//
//	@conf           log             how far the log reaches, see state
//	@conf           doc/NAME        what is known of a document now: a Document
//	@conf/versions  NAME//N         its version N: a Version and, if it is short, the file's bytes
//	@conf/chunks    SHA-256         a part of a longer file
//	@conf/changes   SEQ             who changed what together, and why: a Made
//	@conf/touched   SEQ/PART        further documents that it touched
//	@conf/completed NAME//N/KIND    who made a version, as git told it later: a By
//	@conf/tokens    TOKEN           which change was asked for with it
//	@conf/applied   SOURCE          at which revision documents were last brought from there: a Change's Source
//	@conf/freed     SHA-256         a part that versions had which are no longer kept
//	@conf/stage     PART            what builds before wrote large changes in
//
// Who may look back on a document may read and watch what @conf has of it. The rest is on disk only, see [kv.Archived].
//
// Changes are in one line. Each transaction requires what the one before it left in log, so that
// after one that failed, or of which it is not known whether it did, nothing follows that was
// planned on top of it. [Log.Behind] then tells what there is.
//
// A change is one transaction, however many documents it has. Only chunks of long files are there
// before it, and nothing refers to them until it is.
package log

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
)

// What one transaction of the log has at most, other than that of a change: operations, and bytes of
// chunks.
const (
	mostOps   = 128
	mostBytes = 1 << 20
)

// The keys and namespaces of the log.
const (
	space     = kv.ConfigNamespace
	versions  = space + "/versions"
	chunks    = space + "/chunks"
	changes   = space + "/changes"
	touched   = space + "/touched"
	completed = space + "/completed"
	tokens    = space + "/tokens"
	applied   = space + "/applied"
	freed     = space + "/freed"
	stage     = space + "/stage"

	stateKey  = "log"
	docPrefix = kv.DocumentPrefix
)

// Log is what a store remembers. One goroutine commits; reads may come from any.
type Log struct {
	store kv.Archive // set at open
	epoch string     // set at open
}

// state is what the key log says.
type state struct {
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"`             // of the last change
	Parts int    `json:"parts,omitempty"` // of it that count, but are not in doc/NAME yet; of builds before
}

// Open returns the log in store; if there is none, its first change begins it. It fails if a change of
// a build before is not in place yet. epoch, unless it is empty, is that of the log from now on; a
// new log has the identity of the store otherwise.
func Open(ctx context.Context, store kv.Archive, epoch string) (*Log, error) {
	l := &Log{store: store}
	now, text, err := l.state()
	if err != nil {
		return nil, err
	}
	if now.Parts > 0 {
		return nil, codes.Errorf(codes.Storage, "an earlier build has written a change of documents in parts, which are not in place yet: start the server once with that build, which finishes it")
	}
	switch {
	case epoch != "" && epoch != now.Epoch:
		now.Epoch = epoch
		_, err = l.write(ctx, l.txn(text, now))
	case text == nil:
		now.Epoch = store.Identity()
	}
	l.epoch = now.Epoch
	return l, err
}

// Read returns the log in store, for reading only.
func Read(store kv.Archive) *Log { return &Log{store: store} }

// Epoch identifies the history of versions: random text that never changes.
func (l *Log) Epoch() string { return l.epoch }

// state reads how far the log reaches, and the value that says so; nil: there is no log.
func (l *Log) state() (now state, text []byte, err error) {
	e, _ := l.store.Get([]byte(space), []byte(stateKey))
	if e == nil {
		return state{Epoch: l.epoch}, nil, nil
	}
	err = decode(stateKey, e.Value.Data, &now)
	return now, e.Value.Data, err
}

// txn begins a transaction that follows the one that left text in log.
func (l *Log) txn(text []byte, next state) *kv.Txn {
	return &kv.Txn{System: true, Must: true, Patient: true, If: []kv.Compare{unchanged(stateKey, text)}, Then: []kv.Op{put(space, stateKey, encode(next))}}
}

func put(ns, key string, text []byte) kv.Op {
	value := kv.JSONValue(text)
	if ns == versions || ns == chunks {
		value = kv.BytesValue(text)
	}
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: value}
}

func (l *Log) write(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	return kv.Commit(ctx, l.store, txn)
}

// Behind returns the documents whose newest version was made after a revision, and the sequence
// of the newest change.
func (l *Log) Behind(rev kv.Revision) (list []Document, newest uint64, err error) {
	now, _, err := l.state()
	if err != nil {
		return nil, 0, err
	}
	err = l.eachDocument(func(d Document) {
		if d.Revision > rev {
			list = append(list, d)
		}
	})
	return list, now.Seq, err
}

// eachDocument calls fn for each document, in the order of their names.
func (l *Log) eachDocument(fn func(Document)) error {
	for after, more := "", true; more; {
		var page []Document
		var err error
		if page, more, err = l.Documents(after, 0); err != nil {
			return err
		}
		for _, d := range page {
			after = d.Name
			fn(d)
		}
	}
	return nil
}

// Documents lists documents by name, those that are deleted too, behind the name after, at most
// limit; 0: as many as are listed at once. more tells that there are further ones.
func (l *Log) Documents(after string, limit int) (list []Document, more bool, err error) {
	view := l.store.View()
	defer view.Close()
	if after != "" {
		after = docPrefix + after
	}
	page, err := view.List(kv.List{NS: space, Prefix: docPrefix, After: after, Limit: limit})
	for i := 0; i < len(page.Entries) && err == nil; i++ {
		var d Document
		d, err = document(page.Entries[i])
		list = append(list, d)
	}
	return list, page.More, err
}

// Document returns what is known of a name; N is 0 if nothing is.
func (l *Log) Document(name string) (Document, error) {
	e, _ := l.store.Get([]byte(space), []byte(docPrefix+name))
	if e == nil {
		return Document{Name: name}, nil
	}
	return document(e)
}

func document(e *kv.Entry) (Document, error) {
	var d Document
	err := decode(e.Key, e.Value.Data, &d)
	d.Name = strings.TrimPrefix(e.Key, docPrefix)
	d.Revision = cmp.Or(d.Revision, e.Mod)
	return d, err
}

// Renumber begins versions again: all documents of the log, and the deleted ones, are at version served,
// whatever they were at, in a new epoch. What they were before stays in the log. It returns how many
// documents there are, and can be repeated.
func (l *Log) Renumber(ctx context.Context, served int32) (documents int, err error) {
	var epoch [16]byte
	if _, err := rand.Read(epoch[:]); err != nil {
		return 0, err
	}
	return l.renew(ctx, hex.EncodeToString(epoch[:]), func(d *Document) {
		d.Served, d.Given, d.Floor = served, served, min(d.Floor, served)
	})
}

// Reissue has all documents served as versions that no client has seen: above those they had, and
// not below served. It is for a log that was restored from a backup: clients may know of versions
// that came after it. Open it with a new epoch as well.
func (l *Log) Reissue(ctx context.Context, served int32) error {
	_, err := l.renew(ctx, l.epoch, func(d *Document) { d.Served = max(d.Served+1, served) })
	return err
}

// renew writes what is known of all documents again, as change makes it.
func (l *Log) renew(ctx context.Context, epoch string, change func(*Document)) (documents int, err error) {
	docs, _, err := l.Behind(0)
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	now, text, err := l.state()
	if err != nil {
		return 0, err
	}
	now.Epoch = epoch
	txn := l.txn(text, now)
	for _, d := range docs {
		change(&d)
		txn.Then = append(txn.Then, put(space, docPrefix+d.Name, encode(d)))
	}
	_, err = l.write(ctx, txn)
	return len(docs), err
}

func damaged(key string, err error) error {
	return codes.Errorf(codes.Storage, "what the state store has of the configurations is damaged: %s: %w; restore the data directory from a backup", key, err)
}
