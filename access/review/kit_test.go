package review_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json" // a decoder that is not the product's
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/policy"
	"confcenter/access/review"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/change"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What can be asked of the model can be asked of it over the wire.
var _ = [...]asked{(*review.Reviews)(nil), wire{}}

// kit is everything that reviews are about, with access control.
type kit struct {
	*review.Reviews
	t      testing.TB
	ctx    context.Context
	engine *lossy
	near   *embedded.InProcess
	docs   *confstore.Store
	tokens *token.Tokens
	access *control.Control
	roles  atomic.Pointer[control.Control] // likewise, for the documents' goroutine
	edge   *review.Store
	clock  *clocktest.Fake
	notes  []access.Event
	cfg    review.Config
	dir    string

	leases  control.Leases
	revoked atomic.Bool // all certificates

	stop func() // closes all that start opened; also called at the end of the test
}

// lossy is a store that can be told to fail.
type lossy struct {
	review.Engine
	lose func(txn *kv.Txn) bool // what is written and not acknowledged; nil: nothing
	body func()                 // called once before what is to be done is read
}

// Get implements kv.Reader.
func (l *lossy) Get(ns, key []byte) (*kv.Entry, kv.Revision) {
	if body := l.body; body != nil && bytes.HasPrefix(key, []byte("body/")) {
		l.body = nil
		body()
	}
	return l.Engine.Get(ns, key)
}

// Commit implements kv.Store.
func (l *lossy) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if lose := l.lose; lose != nil && lose(txn) {
		return l.Engine.Commit(txn, func(*kv.Result, error) { done(nil, codes.Errorf(codes.Timeout, "lost")) })
	}
	return l.Engine.Commit(txn, done)
}

const rules = `{
	"approval": ["config:live/*", "kv:live/limits*", "kv:match/only"],
	"rules": [
		{"who": ["token:zoe", "token:max"], "allow": ["*"], "what": ["config:live/*", "config:free/*", "kv:live", "kv:match", "kv:free"]},
		{"who": ["token:writer", "cert:CN=carl*", "group:writers"], "allow": ["read", "write", "delete"], "what": ["config:live/*", "kv:live"]},
		{"who": ["token:half"], "allow": ["read", "approve"], "what": ["config:live/a*", "kv:live/limits/a"]},
		{"who": ["token:blind"], "allow": ["approve"], "what": ["config:live/*", "kv:live"]},
		{"who": ["token:stranger"], "allow": ["*"], "what": ["kv:other"]}
	]}`

func start(t testing.TB, change ...func(*review.Config)) *kit {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	k := &kit{t: t, ctx: ctx, clock: clocktest.NewFake(time.Now()), dir: t.TempDir()}
	memory := memory.New(memory.Config{Clock: k.clock})
	t.Cleanup(func() { memory.Close() })
	k.engine, k.leases = &lossy{Engine: memory}, memory
	for name, text := range map[string]string{
		"_access/rules.json": rules, "live/a.json": `{"a":1}`, "live/heir.json": `{}`, "free/base.json": `{"b":1}`,
		"_meta.json": `{"conf_inherit":{"live/heir.json":"free/base.json"}}`,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(k.dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o644))
	}
	var err error
	k.docs, err = confstore.Open(confstore.Config{Dir: k.dir, DataDir: t.TempDir(), State: k.engine.Engine, SetTimeout: time.Minute, Approval: approval{k},
		Check: func(name string, before, contents []byte, by *access.Actor) error {
			return k.roles.Load().Check(name, before, contents, by)
		},
		MayChange: func(name string, deletes bool, by *access.Actor) error {
			return k.roles.Load().MayChange(name, deletes, by)
		}})
	require.NoError(t, err)
	k.near = embedded.New(k.engine, nil)
	k.tokens = token.Open(k.near, token.Config{Clock: k.clock})
	for _, name := range []string{"zoe", "max", "writer", "half", "blind", "stranger"} {
		k.token(nil, name)
	}
	k.token(nil, "root", policy.Administrators)
	k.admit()
	k.stop = sync.OnceFunc(func() {
		k.access.Close()
		k.near.Close()
		require.NoError(t, k.docs.Close())
	})
	t.Cleanup(k.stop)
	k.cfg = review.Config{Clock: k.clock, Documents: k.docs, Tokens: k.tokens, Notes: func(e access.Event) { k.notes = append(k.notes, e) }}
	for _, c := range change {
		c(&k.cfg)
	}
	k.open()
	return k
}

// admit has roles and settings say who may do what.
func (k *kit) admit(administrators ...string) {
	if k.access != nil {
		defer k.access.Close()
	}
	k.access = control.Open(control.Config{Roles: k.docs, Tokens: k.tokens, Store: k.near, Leases: k.leases, Clock: k.clock, Places: []control.Place{{Name: "listener:old"}},
		Administrators: administrators, Revoked: func(*x509.Certificate) bool { return k.revoked.Load() }})
	k.roles.Store(k.access)
	if k.tokens.Obey(k.access); k.Reviews != nil {
		k.Obey(k.access)
	}
}

// open is another start of the server.
func (k *kit) open() {
	k.Reviews = review.Open(k.near, k.cfg)
	k.Obey(k.access)
	k.tokens.Await(k.HoldToken)
	k.edge = k.Guard(k.engine)
}

type approval struct{ k *kit }

func (a approval) Marked(name string) bool   { return a.k.Reviews.Marked(name) }
func (a approval) Hold(h *change.Held) error { return a.k.Reviews.Hold(h) }

// as is an actor with a token.
func as(name string) *access.Actor {
	return &access.Actor{Origin: access.OverTCP, Address: "10.0.0.1:5", Identity: &access.Identity{Name: "token:" + name}}
}

func root() *access.Actor {
	by := as("root")
	by.Identity.Groups = []string{policy.Administrators}
	return by
}

func (k *kit) token(by *access.Actor, name string, groups ...string) *token.Made {
	made, err := k.tokens.Make(context.Background(), by, &token.MakeAsk{Name: name, Groups: groups})
	require.NoError(k.t, err)
	return made
}

// apply asks for documents, which are deleted where the text is empty.
func (k *kit) apply(by *access.Actor, texts ...string) error {
	req := change.Request{Actor: by}
	for i := 0; i < len(texts); i += 2 {
		d := change.Document{Name: texts[i]}
		if texts[i+1] != "" {
			d.File = []byte(texts[i+1])
		}
		req.Documents = append(req.Documents, d)
	}
	done := make(chan error, 1)
	if err := k.docs.Change(req, func(_ change.Result, err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

func put(ns, key, value string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue(value)}
}

// txn writes keys as an edge does.
func (k *kit) txn(by *access.Actor, txn kv.Txn) (*kv.Result, error) {
	txn.Actor = by
	return kv.Commit(k.ctx, k.edge, &txn)
}

func (k *kit) write(by *access.Actor, ops ...kv.Op) error {
	_, err := k.txn(by, kv.Txn{Then: ops})
	return err
}

// held is the number under which a change is held.
func (k *kit) held(err error) int64 {
	k.t.Helper()
	require.Equal(k.t, codes.Held, codes.Of(err), "%v", err)
	var h *access.Held
	require.ErrorAs(k.t, err, &h)
	return h.Number
}

func (k *kit) approve(by *access.Actor, number int64) error {
	_, err := k.Approve(k.ctx, by, &review.ApproveAsk{Number: number})
	return err
}

// text is a document as it is served; empty: there is none.
func (k *kit) text(name string) string {
	n := k.docs.Snapshot().Node(name)
	if n == nil || !n.Known() || n.Deleted() {
		return ""
	}
	text, _ := n.Contents(false)
	return string(text)
}

// value is the text of a key; empty: there is none.
func (k *kit) value(ns, key string) string {
	if e, _ := k.engine.Get([]byte(ns), []byte(key)); e != nil {
		return string(e.Value.Data)
	}
	return ""
}

func (k *kit) numbers(by *access.Actor, all bool) (list []int64) {
	listed, err := k.List(k.ctx, by, &review.ListAsk{All: all})
	require.NoError(k.t, err)
	for _, c := range listed.Changes {
		list = append(list, c.Number)
	}
	return list
}

func (k *kit) shown(by *access.Actor, number int64) *review.Shown {
	k.t.Helper()
	answer, err := k.Show(k.ctx, by, &review.ShowAsk{Number: number})
	require.NoError(k.t, err)
	return answer
}

// leftovers are the keys of changes that are to be done.
func (k *kit) leftovers() (keys []string) {
	page, err := k.near.List(kv.List{NS: kv.ReviewNamespace, Prefix: "body/"})
	require.NoError(k.t, err)
	for _, e := range page.Entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func plain(t require.TestingT, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), `\"`, `"`)
}
