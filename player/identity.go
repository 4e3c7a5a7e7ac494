package player

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// Identity is what a database says of itself.
type Identity struct {
	Database string // a random name of its own; "": it has none
	Store    string // the name of the store that lands in it; "": none does
}

// Judge decides about a connection to a database that says to be that: it fails with Unusable if
// the connection must not be used. Otherwise it returns what the database shall say, by which it
// is judged again if that is something else. tables are those of fields that the database has.
type Judge func(ctx context.Context, is Identity, tables func() ([]string, error)) (Identity, error)

// Unusable is the error for a database that answers and must not be used, or a table of it. Peers
// are told, so it names no host, user or file.
type Unusable struct{ err *codes.Error }

// Unusablef makes an Unusable, of codes.Unreachable.
func Unusablef(format string, args ...any) *Unusable {
	return &Unusable{codes.Errorf(codes.Unreachable, format, args...)}
}

func (u *Unusable) Error() string { return u.err.Error() }

// Unwrap returns the error with its code.
func (u *Unusable) Unwrap() error { return u.err }

// What a data directory knows of its database: the names of both, in Landing. Backups carry them,
// and what is restored from one is the same store, of the same database.
const (
	databaseKey = "database"
	storeKey    = "store"
)

// Stays reports whether an entry is right as of any revision: what the database is called does
// not change when a store goes back in time.
func Stays(ns, key string) bool {
	return ns == field.Landing && (key == databaseKey || key == storeKey)
}

// moveOn is how to go on with another database than the one before.
const moveOn = "start the server with the right one; or, if this is the right one, once with --landing-moved, which lands what is in memory there"

// identity is which database the Storage works with.
type identity struct {
	s      *Storage                 // set at open
	moved  atomic.Bool              // the store may take the place of another one, once
	closed atomic.Pointer[Unusable] // why only memory can be used; nil: nothing is known against the database

	naming sync.Mutex // held while the store is given a name

	mu   sync.Mutex
	said map[string]time.Time // when which Unusable was logged last; guarded by mu
}

func (i *identity) text(key string) string {
	e, _ := i.s.store.Get([]byte(field.Landing), []byte(key))
	if e == nil {
		return ""
	}
	return string(e.Value.Data)
}

func (i *identity) remember(ctx context.Context, key, text string) error {
	txn := kv.PutTxn(field.Landing, key, kv.StringValue(text))
	txn.Must = true // also if the store is full: what is landed can leave it
	_, err := i.s.commit(ctx, txn)
	return err
}

// name is that of the store, which it is given when it is first needed; "" if it cannot be.
func (i *identity) name(ctx context.Context) (string, error) {
	i.naming.Lock()
	defer i.naming.Unlock()
	if name := i.text(storeKey); name != "" {
		return name, nil
	}
	txn := kv.PutTxn(field.Landing, storeKey, kv.StringValue(rand.Text()))
	txn.Must, txn.If = true, []kv.Compare{kv.Absent(field.Landing, storeKey)} // another server of the store may be faster
	if _, err := i.s.commit(ctx, txn); err != nil && !errors.Is(err, codes.Conflict) {
		return "", err
	}
	return i.text(storeKey), nil
}

// judge is a Judge, which remembers what came of it.
func (i *identity) judge(ctx context.Context, is Identity, tables func() ([]string, error)) (Identity, error) {
	want, err := i.decide(ctx, is, tables)
	u, bad := errors.AsType[*Unusable](err)
	if !bad && (err != nil || want != is) {
		return want, err // it is not known yet
	}
	if was := i.closed.Swap(u); !bad && was != nil {
		i.s.log.Info().Str("database", is.Database).Msg("player storage has its database again")
	}
	if !bad {
		i.moved.Store(false)
	}
	return want, err
}

func (i *identity) decide(ctx context.Context, is Identity, tables func() ([]string, error)) (Identity, error) {
	mine, unwritten := i.name(ctx)
	known := i.text(databaseKey)
	switch {
	case known != "" && is.Database == "":
		return is, Unusablef("the landing database is not %s, in which this store has landed: it has no name, so that it is empty, made again, or another one; %s", known, moveOn)
	case known != "" && is.Database != known:
		return is, Unusablef("the landing database is %s, and this store has landed in %s; %s", is.Database, known, moveOn)
	case is.Store != "" && is.Store != mine && !i.moved.Load():
		return is, Unusablef("store %s lands in the database %s, and this is the store %s: two would overwrite each other; %s", is.Store, is.Database, mine, moveOn)
	}
	if known == "" && !i.moved.Load() {
		if err := i.has(tables); err != nil {
			return is, err
		}
	}
	if unwritten != nil {
		return is, nil // nothing is landed either until the store can be written
	}
	want := is
	if want.Store = mine; want.Database == "" {
		want.Database = rand.Text()
	}
	if want != is || known != "" {
		return want, nil
	}
	if err := i.remember(ctx, databaseKey, is.Database); err != nil {
		return is, nil // the next connection is asked, too
	}
	i.s.log.Info().Str("database", is.Database).Str("store", mine).Msg("player storage belongs to this landing database from now on, and takes no other one")
	return is, nil
}

// has reports whether a database has all tables that a data directory knows which does not know
// the database yet: that of an earlier version.
func (i *identity) has(tables func() ([]string, error)) error {
	known, err := i.tables()
	if err != nil || len(known) == 0 {
		return err
	}
	there, err := tables()
	if err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(table string) bool { return slices.Contains(there, table) })
	if len(known) > 0 {
		return Unusablef("the landing database has not got the tables in which this store has landed (%s); %s", listed(known), moveOn)
	}
	return nil
}

// listed names some of many.
func listed(names []string) string {
	const some = 5
	if len(names) > some {
		return strings.Join(names[:some], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// tables are those that the store knows, whatever it knows of them.
func (i *identity) tables() (list []string, err error) {
	v := i.s.store.View()
	defer v.Close()
	err = each(v, field.Landing, knownPrefix, func(e *kv.Entry) { list = append(list, e.Key[len(knownPrefix):]) })
	return list, err
}

// landed reports whether the store has landed in a database.
func (i *identity) landed() (bool, error) {
	tables, err := i.tables()
	return len(tables) > 0 || i.text(databaseKey) != "", err
}

// forget forgets the database, with what is known of it. So all that is in memory is dirty: the
// next database may not have it.
func (i *identity) forget(ctx context.Context) error {
	keys := []string{databaseKey}
	v := i.s.store.View()
	for _, prefix := range []string{knownPrefix, cursorPrefix} {
		if err := each(v, field.Landing, prefix, func(e *kv.Entry) { keys = append(keys, e.Key) }); err != nil {
			v.Close()
			return err
		}
	}
	v.Close()
	for some := range slices.Chunk(keys, opsAtOnce) {
		txn := &kv.Txn{}
		for _, key := range some {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: field.Landing, Key: key})
		}
		if _, err := i.s.commit(ctx, txn); err != nil {
			return err
		}
	}
	return nil
}

// say logs an Unusable, once in a while, with what the Backing says beside it.
func (i *identity) say(u *Unusable, err error) {
	now := i.s.clock.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	if at, told := i.said[u.Error()]; told && now.Sub(at) < outagePause {
		return
	}
	const many = 100
	if i.said == nil || len(i.said) >= many {
		i.said = map[string]time.Time{}
	}
	i.said[u.Error()] = now
	i.s.log.Error().Err(err).Msg("requests for what has left memory fail until this is put right")
}

// nowhere is the Backing of a store that has landed in a database, and is served without one.
type nowhere struct{ why *Unusable }

func (n nowhere) Admit(Judge, bool) {}

func (n nowhere) Fields(context.Context, field.Owner, []string) ([]field.Row, error) {
	return nil, n.why
}

func (n nowhere) All(context.Context, field.Owner) ([]field.Row, error) { return nil, n.why }

func (n nowhere) Owners(context.Context, OwnerQuery, func([]byte)) error { return n.why }

func (n nowhere) Purge(context.Context, Purge) (Purged, error) { return Purged{}, n.why }

func (n nowhere) Tables(context.Context) ([]string, error) { return nil, n.why }
