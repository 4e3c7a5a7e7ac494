package flow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// edit is one change under construction: a transaction whose conditions are what was read for
// it. If one of them does not hold any more, it is made anew.
type edit struct {
	draft
	f   *Flow
	who string
	now int64 // ns since 1970

	// of the question, for all attempts
	by    *access.Actor
	token string
	asked []byte
}

// draft is a transaction in the namespace of a scope.
type draft struct {
	ns   string
	txn  kv.Txn
	news bool // something can be claimed that could not be before
}

// attempts is how often a change is made anew because another client was faster.
const attempts = 100

// edit begins a change. The caller says who it is, or is named by its connection.
func (f *Flow) edit(by *access.Actor, scope, who, token string, question any) (*edit, error) {
	ns, err := Namespace(scope)
	if err != nil {
		return nil, err
	}
	if len(who) > MaxWho {
		return nil, codes.Errorf(codes.NameTooLong, "who has %d bytes, the limit is %d", len(who), MaxWho)
	}
	e := &edit{draft: draft{ns: ns}, f: f, who: cmp.Or(who, by.String(), "unknown"), by: by, token: token}
	if err := kv.CheckToken(token); err != nil || token == "" {
		return e, err
	}
	text, err := json.Marshal(question)
	if err != nil {
		return nil, codes.Errorf(codes.BadJSON, "%w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%T %s", question, text))
	e.asked = sum[:]
	return e, nil
}

// editOf is edit of a member, whose name parse reads.
func (f *Flow) editOf(by *access.Actor, scope, key string, parse func(string) (Member, error), who, token string, question any) (*edit, Member, error) {
	e, err := f.edit(by, scope, who, token, question)
	if err != nil {
		return nil, Member{}, err
	}
	m, err := parse(key)
	return e, m, err
}

// known returns the result of the same request if it was carried out before.
func (e *edit) known(ctx context.Context) (*kv.Result, error) {
	if e.token == "" {
		return nil, nil
	}
	never := e.begin()
	never.If = []kv.Compare{kv.Absent(e.ns, never.Token), {NS: e.ns, Key: never.Token, Target: kv.CompareVersion, Relation: kv.Greater}}
	res, err := e.f.store.Txn(ctx, never)
	if codes.Of(err) == codes.Conflict {
		return nil, nil
	}
	return res, err
}

func (e *edit) begin() *kv.Txn {
	txn := &kv.Txn{Must: true, Actor: e.by}
	if e.token != "" {
		txn.Token, txn.TokenNS, txn.Asked = e.token, e.ns, e.asked
	}
	return txn
}

// commit carries a change out that build makes, once for all requests with its token: a
// repetition gets the first one's result, also if what it asks for cannot be done any more.
func (e *edit) commit(ctx context.Context, build func() error) (*kv.Result, error) {
	res, err := e.apply(ctx, build)
	return e.orFirst(ctx, res, err)
}

// orFirst returns the first one's result instead of what a repetition failed with.
func (e *edit) orFirst(ctx context.Context, res *kv.Result, err error) (*kv.Result, error) {
	if err != nil {
		if first, faulty := e.known(ctx); first != nil || faulty != nil {
			return first, faulty
		}
	}
	return res, err
}

// pieces is commit of a change that takes several transactions. Only the last has the token; for
// the others there is an edit without one.
func (e *edit) pieces(ctx context.Context, do func(piece *edit) (*kv.Result, error)) (*kv.Result, error) {
	if res, err := e.known(ctx); res != nil || err != nil {
		return res, err
	}
	piece := *e
	piece.token = ""
	res, err := do(&piece)
	return e.orFirst(ctx, res, err)
}

// apply is commit of a change that has no token, or that asks itself whether the token is known.
// build only reads, and says what is written.
func (e *edit) apply(ctx context.Context, build func() error) (*kv.Result, error) {
	for range attempts {
		e.txn, e.news, e.now = *e.begin(), false, e.f.cfg.Clock.Now().UnixNano()
		if err := build(); err != nil {
			return nil, err
		}
		if e.news {
			e.do(kv.Op{Kind: kv.OpIncr, NS: index, Key: newsKey(e.ns), Delta: 1})
		}
		if err := e.f.enter(ctx, e.ns); err != nil {
			return nil, err
		}
		res, err := e.f.store.Txn(ctx, &e.txn)
		if codes.Of(err) != codes.Conflict {
			return res, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return nil, codes.Errorf(codes.Busy, "another client was faster %d times; try again", attempts)
}

// commitLeased is commit of a change for which a lease is granted, as soon as it is clear that it
// can be made. build is called without one first.
func (e *edit) commitLeased(ctx context.Context, ttl time.Duration, build func(kv.LeaseID) error) (*kv.Result, error) {
	var lease kv.LeaseID
	res, err := e.commit(ctx, func() error {
		err := build(lease)
		if err != nil || lease != 0 {
			return err
		}
		if lease, err = e.grant(ctx, ttl); err != nil {
			return err
		}
		e.txn = *e.begin()
		return build(lease)
	})
	if lease != 0 && (err != nil || res.Replayed) {
		e.revoke(ctx, lease)
	}
	return res, err
}

// enter writes, once for each scope, when its lists were made.
func (f *Flow) enter(ctx context.Context, ns string) error {
	f.mu.Lock()
	_, known := f.scopes[ns]
	f.mu.Unlock()
	if known {
		return nil
	}
	now := kv.IntValue(f.cfg.Clock.Now().UnixNano())
	txn := &kv.Txn{If: []kv.Compare{kv.Absent(ns, "cfapplist.ctime")}}
	for _, kind := range [...]Kind{App, Worker, Scheduler} {
		txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: ns, Key: kinds[kind].list + ".ctime", Value: now})
	}
	txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: index, Key: "scope." + ns[len(kv.FlowPrefix):], Value: now})
	if f.store.Get(ns, "cfapplist.ctime") == nil {
		if _, err := f.store.Txn(ctx, txn); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.scopes) >= maxScopes {
		clear(f.scopes)
	}
	f.scopes[ns] = struct{}{}
	return nil
}

func (d *draft) put(key string, v kv.Value) { d.putIn(d.ns, key, v, 0) }
func (d *draft) putText(key, v string)      { d.put(key, kv.StringValue(v)) }

// putStatus writes a status in one of the places where it stands.
func (d *draft) putStatus(key string, s Status) {
	d.putText(key, string(s))
	d.news = d.news || s == Waiting
}

func (d *draft) do(op kv.Op) { d.txn.Then = append(d.txn.Then, op) }

func (d *draft) putIn(ns, key string, v kv.Value, lease kv.LeaseID) {
	d.do(kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: v, Lease: lease})
}

func (d *draft) incr(key string, n int64) { d.do(kv.Op{Kind: kv.OpIncr, NS: d.ns, Key: key, Delta: n}) }

func (d *draft) remove(key string)       { d.removeIn(d.ns, key) }
func (d *draft) removeIn(ns, key string) { d.do(kv.Op{Kind: kv.OpDelete, NS: ns, Key: key}) }
func (d *draft) removeBelow(prefix string) {
	d.do(kv.Op{Kind: kv.OpDeletePrefix, NS: d.ns, Key: prefix})
}

// endLease ends the lease that a key has, and with it the key.
func (d *draft) endLease(of *kv.Entry) { d.do(kv.Op{Kind: kv.OpRevoke, Lease: of.Lease}) }

func (d *draft) when(c ...kv.Compare) { d.txn.If = append(d.txn.If, c...) }

func exists(ns, key string) kv.Compare {
	return kv.Compare{NS: ns, Key: key, Target: kv.CompareVersion, Relation: kv.Greater}
}

func is(ns, key string, v kv.Value) kv.Compare {
	return kv.Compare{NS: ns, Key: key, Target: kv.CompareValue, Relation: kv.Equal, Value: v}
}

// whenVisible is the condition that all that a record is below is still there.
func (d *draft) whenVisible(r *record) {
	for _, key := range r.aboveKeys() {
		d.when(exists(d.ns, key))
	}
}

// still is the condition that a key was never deleted since it was read. That the create revision
// is the same tells a thing from a later one of the same name.
func still(e *kv.Entry) kv.Compare {
	return kv.Compare{NS: e.NS, Key: e.Key, Target: kv.CompareCreate, Relation: kv.Equal, Number: int64(e.Create)}
}

// whenSame is the condition that a key is as it was read.
func (d *draft) whenSame(key string, was *kv.Entry) {
	c := kv.Absent(d.ns, key)
	if was != nil {
		c = kv.Compare{NS: d.ns, Key: key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(was.Mod)}
	}
	d.when(c)
}

// touch notes that the member is changed: by whom and when, and what is done to it. Since every
// change does so, the condition that none has done so since covers the whole record, and the
// number of changes numbers the lines of the log.
func (e *edit) touch(m Member, atime *kv.Entry, what string) {
	line := int64(1)
	if atime != nil {
		line = atime.Version + 1
		e.now = max(e.now, number(atime)) // the machine's clock may have been put back since
	}
	e.whenSame(m.field("atime"), atime)
	e.put(m.field("atime"), kv.IntValue(e.now))
	e.putText(m.field("whoac"), e.who)
	b := fmt.Appendf(nil, `{"time":%d,"who":`, e.now)
	b = append(jsontext.AppendQuote(b, e.who), `,"what":`...)
	b = jsontext.AppendQuote(b, what)
	if by := e.by.String(); by != "" && by != e.who {
		b = jsontext.AppendQuote(append(b, `,"by":`...), by)
	}
	e.put(logKey(m, line), kv.JSONValue(append(b, '}')))
	if old := line - e.f.cfg.Lines; old > 0 {
		e.remove(logKey(m, old))
	}
}

func logKey(m Member, line int64) string { return m.field(fmt.Sprintf("oplog.%010d", line)) }

// setStatus writes a member's status, wherever it stands, and what is said of that.
func (e *edit) setStatus(r *record, to Status, why string) {
	e.putStatus(r.listKey(), to)
	e.putStatus(r.field("cstat"), to)
	if r.Kind == Node {
		e.putStatus(r.field("state"), to)
	}
	what := fmt.Sprintf("%s -> %s", r.status, to)
	if why != "" {
		what += ": " + why
	}
	e.touch(r.Member, r.atime, what)
}

// create writes a new member with its fields, in its list unless it is to be published later.
func (e *edit) create(r *record, values map[string]kv.Value, listed bool) {
	for name, v := range values {
		e.put(r.field(name), v)
	}
	e.put(r.field("ctime"), kv.IntValue(e.now))
	e.putText(r.field("uuid"), r.ID)
	e.put(r.field("count"), kv.IntValue(0))
	e.put(r.field("dsize"), kv.IntValue(0))
	if len(r.above) > 0 {
		e.putText(r.field("parent"), r.above[0].String())
		e.putText(r.field("appuid"), r.app().ID)
	}
	if r.Kind == Node {
		e.putText(r.field("sesuid"), r.above[1].ID)
	}
	if children[r.Kind] != nil {
		e.put(r.field("claims"), kv.IntValue(0))
	}
	status := initial(r.Kind)
	e.putStatus(r.field("cstat"), status)
	if r.Kind == Node {
		e.putStatus(r.field("state"), status)
	}
	e.touch(r.Member, r.atime, "registered")
	if listed {
		e.putStatus(r.listKey(), status)
	}
}

// initial is the status of a new member.
func initial(k Kind) Status {
	switch k {
	case Session, FlowKind:
		return ""
	case Worker, Scheduler:
		return Working
	}
	return Waiting
}
