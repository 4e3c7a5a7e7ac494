package kv

import (
	"cmp"
	"context"
	"time"

	"confcenter/access"
	"confcenter/codes"
)

// Target is the part of an entry that a Compare looks at.
type Target uint8

// The targets. An absent key has create revision, mod revision and version 0, and
// no value, so CompareVersion equal to 0 asks for absence.
const (
	CompareValue Target = iota + 1
	CompareVersion
	CompareCreate
	CompareMod
)

// Relation is how a Compare compares.
type Relation uint8

// The relations. Less and Greater compare the values of ints and doubles as
// numbers, where nan is neither, and of other types by their bytes.
const (
	Equal Relation = iota + 1
	NotEqual
	Less
	Greater
)

// The names of targets and relations, by their numbers, in JSON and for people.
var (
	TargetNames   = [...]string{CompareValue: "value", CompareVersion: "version", CompareCreate: "create", CompareMod: "mod"}
	RelationNames = [...]string{Equal: "=", NotEqual: "!=", Less: "<", Greater: ">"}
)

// Compare is a condition on one key: the stored Target is in Relation to the given
// Number or Value.
type Compare struct {
	NS, Key  string
	Target   Target
	Relation Relation
	Number   int64 // for CompareVersion, CompareCreate, CompareMod
	// Value is for CompareValue. Type 0 compares texts of any type. An absent key, and
	// one of another type, satisfy only NotEqual.
	Value Value
}

// Absent is the condition that a key does not exist.
func Absent(ns, key string) Compare {
	return Compare{NS: ns, Key: key, Target: CompareVersion, Relation: Equal}
}

// Fence is the condition that a lock is held: its key exists and was created by the
// revision that is its fencing token.
type Fence struct {
	NS, Key string
	Token   Revision
}

// OpKind is the kind of an Op.
type OpKind uint8

// The kinds of operations.
const (
	OpGet OpKind = iota + 1
	OpPut
	OpDelete
	OpDeletePrefix
	OpIncr
	OpGrant
	OpRevoke
)

// Members are what an operation says, besides its kind and its namespace.
type Members uint16

// The members.
const (
	MemberKey    Members = 1 << iota // Key
	MemberPrefix                     // Key, which is a prefix, Limit and Confirm
	MemberValue                      // Value
	MemberSeal                       // Seal
	MemberBy                         // Delta, Initial, Min and Max
	MemberEnds                       // TTL, Expires and Lease of a key, which has a value afterwards
	MemberPrev                       // WantPrev
	MemberTTL                        // TTL of a lease
	MemberLease                      // Lease, which is to end
)

// opKinds has a row for each kind: its name, what it does, and its members. All but its meaning follows from
// these: its JSON, its checks and the rights that it needs, and of one that Follows all ways to ask for it.
var opKinds = [...]struct {
	name, doc string
	has       Members
}{
	OpGet:          {"get", "reads a key, as the operations before it left it", MemberKey},
	OpPut:          {"put", "writes a value", MemberKey | MemberValue | MemberSeal | MemberEnds | MemberPrev},
	OpDelete:       {"delete", "deletes a key; an absent one is not an error", MemberKey | MemberPrev},
	OpDeletePrefix: {"delete_prefix", "deletes the keys with a prefix, up to a limit", MemberPrefix},
	OpIncr:         {"incr", "adds to an int", MemberKey | MemberBy | MemberEnds | MemberPrev},
	OpGrant:        {"grant", "grants a lease, one in a branch at most", MemberTTL},
	OpRevoke:       {"revoke", "ends a lease and deletes its keys", MemberLease},
}

// OpKinds returns all kinds, in the order of their numbers.
func OpKinds() []OpKind {
	kinds := make([]OpKind, 0, len(opKinds)-1)
	for k := OpGet; int(k) < len(opKinds); k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

func (k OpKind) String() string {
	if int(k) < len(opKinds) && opKinds[k].name != "" {
		return opKinds[k].name
	}
	return "unknown"
}

// Doc says what an operation of this kind does; its name is the subject.
func (k OpKind) Doc() string { return opKinds[k].doc }

// membersOf are the members alone, which are looked up several times for each operation.
var membersOf = func() (list [1 << 8]Members) {
	for k := range opKinds {
		list[k] = opKinds[k].has
	}
	return list
}()

// Members are those of an operation of this kind; 0 if there is no such kind.
func (k OpKind) Members() Members { return membersOf[k] }

// Has reports whether an operation of this kind has that member.
func (k OpKind) Has(m Members) bool { return k.Members()&m != 0 }

// Sets reports whether an operation of this kind leaves a value under its key: it
// may set when the key expires, and its result has the entry.
func (k OpKind) Sets() bool { return k.Has(MemberEnds) }

// Updates reports whether that value is made of what the key had, unlike that of a put: so it tells of that.
func (k OpKind) Updates() bool { return k.Sets() && k != OpPut }

// HasEntry reports whether the result is an entry, and not the count of what was deleted or a lease.
func (k OpKind) HasEntry() bool { return k == OpGet || k.Sets() }

// Follows reports whether the ways to ask for the operation follow from its row alone: it changes one key,
// and has no ways of its own as a put and a delete have.
func (k OpKind) Follows() bool { return k.Has(MemberKey) && k != OpGet && k != OpPut && k != OpDelete }

// ParseOp returns the kind with that name, or false.
func ParseOp(name string) (OpKind, bool) {
	for k := range opKinds {
		if opKinds[k].name == name && name != "" {
			return OpKind(k), true
		}
	}
	return 0, false
}

// Op is one operation. Which fields it uses depends on Kind.
//
// wide: it has what each kind of operation needs.
type Op struct {
	Kind OpKind
	// Lock of OpPut, with a Lease: the key is a lock from now on, until it is deleted. Other writes to
	// it need its fence or its lease, else they fail with a *Taken; one with its fence alone leaves it
	// the lease. It is for those who make locks: no request of a peer can set it.
	Lock bool
	// WantPrev asks OpPut, OpDelete and OpIncr for the entry before the transaction.
	WantPrev bool
	// Seal asks for the Value of OpPut to be sealed, which has to be done where peers' requests are
	// taken; stores refuse it.
	Seal    bool
	NS, Key string // Key is the prefix of OpDeletePrefix
	Value   Value  // OpPut

	// TTL of OpPut and OpIncr counts from the commit, parts of a ms rounded up;
	// Expires (ms since 1970) is the moment itself; at most one of them. A put with
	// neither never expires, an increment with neither keeps what the key has. The
	// past expires at once, in a transaction of its own that follows.
	// OpGrant: the lease's time.
	TTL     time.Duration
	Expires int64
	// Lease of OpPut: the key ends with it, codes.LeaseGone if there is none; a put
	// without one leaves the lease that the key had. OpRevoke: the lease to end. An
	// increment keeps the lease of its key unless one is given.
	Lease LeaseID

	// OpIncr: an absent key counts as Initial, as does one whose value is Removed. The
	// result must be within Min and Max where they are given.
	Delta, Initial int64
	Min, Max       *int64

	// Limit of OpDeletePrefix: delete at most so many keys; 0: MaxDeletePrefix.
	Limit int
	// Confirm of OpDeletePrefix repeats NS. With an empty prefix it is required, because
	// that deletes everything in the namespace; with any other it may be left out. It only
	// counts for Check: a Token does not depend on it.
	Confirm string
}

// OpResult is the result of one operation.
type OpResult struct {
	// Entry is what OpGet found or OpPut and OpIncr left; nil for an absent key.
	// Of an OpPut in a Result that is Replayed its value is missing.
	Entry *Entry
	Prev  *Entry // with WantPrev; nil: absent
	Count int64  // keys deleted by OpDelete, OpDeletePrefix, OpRevoke
	More  bool   // OpDeletePrefix stopped at its limit
	Lease Lease  // OpGrant
}

// Txn is a transaction: if all of If hold, it applies Then, else Else, atomically.
// If an operation fails, nothing is applied. Operations see the effects of earlier
// ones; a key that several of them change changes once, to its last value. A key
// that is deleted and written again is a new one: its create revision is the
// transaction's. A key that is created and deleted again has not changed. A branch
// can grant only one lease, because its id is the revision.
type Txn struct {
	Fences     []Fence // must hold, else codes.FenceLost
	If         []Compare
	Then, Else []Op
	// Must makes a transaction whose If do not all hold fail with codes.Conflict, so that it
	// leaves no token; Else is not used.
	Must bool

	// Token makes the transaction happen only once: a later one with the same token in
	// the same namespace gets the first one's Result if it asks for the same, else
	// codes.TokenReused, before its fences and compares are evaluated. A failed
	// transaction leaves no token. Stores keep a limited number of tokens for a
	// limited time.
	Token, TokenNS string
	// Asked, unless it is empty, is what the Token is for in place of the operations and
	// conditions: a repeated request is the same if Asked is, whatever operations it is
	// carried out by the second time. Result.Ops of one that is Replayed are those of the
	// first time, in their order; of each OpPut the value is missing as always.
	Asked []byte

	// System marks a transaction of the server's own, which may write to Guarded
	// namespaces, have up to MaxSystemOps operations and MaxSystemTxnBytes, and MaxOps conditions.
	// No request of a peer can set it.
	System bool
	// Lessens marks a System transaction that takes rights away and gives none. Who must not go on
	// cannot wait until there is space: it is written to the last byte of the disk, whatever is kept
	// in reserve.
	Lessens bool
	// Patient marks a System transaction whose caller waits as long as the disk takes: it is not
	// answered with codes.Timeout while the disk hangs.
	Patient bool

	// Actor is who asks for the transaction. A Token does not depend on it, and the store keeps
	// it only in the audit, which has no line about what no one asked for.
	Actor *access.Actor
	// Note is what the audit says of the transaction, if it is more than its operations say;
	// By is Actor unless it is set. A System transaction that does nothing else makes its
	// lines durable.
	Note []access.Event
}

// Result is the result of a transaction.
type Result struct {
	// Revision is the transaction's own if it changed something, else the one it
	// was evaluated at.
	Revision Revision
	Held     bool       // all of If held, and Ops are Then's; else they are Else's
	Ops      []OpResult // one for each operation
	Replayed bool       // Token was known; this is the first result
}

// Size returns how many bytes of keys and values the result has.
func (r *Result) Size() (n int) {
	for i := range r.Ops {
		for _, e := range [2]*Entry{r.Ops[i].Entry, r.Ops[i].Prev} {
			if e != nil {
				n += e.Size()
			}
		}
	}
	return n
}

// PutTxn returns a transaction that writes one key.
func PutTxn(ns, key string, value Value) *Txn {
	return &Txn{Then: []Op{{Kind: OpPut, NS: ns, Key: key, Value: value}}}
}

// Writes reports whether the operation can change something.
func (op *Op) Writes() bool { return op.Kind != OpGet }

// Check reports whether the transaction is valid, independently of the store. The
// error names the operation, the field and the limit.
func (t *Txn) Check() error {
	mostOps, mostBytes, most := MaxOps, MaxTxnBytes, MaxCompares
	if t.System {
		mostOps, mostBytes, most = MaxSystemOps, MaxSystemTxnBytes, MaxOps
	}
	if n := max(len(t.Then), len(t.Else)); n > mostOps {
		return codes.Errorf(codes.TooManyOps, "transaction has %d operations, the limit is %d", n, mostOps)
	}
	if n := len(t.If) + len(t.Fences); n > most {
		return codes.Errorf(codes.TooManyOps, "transaction has %d conditions, the limit is %d", n, most)
	}
	if err := CheckToken(t.Token); err != nil {
		return err
	}
	if t.Token != "" {
		if err := CheckNamespace(t.TokenNS); err != nil {
			return err
		}
		if err := t.mayWrite(t.TokenNS); err != nil {
			return err
		}
		if len(t.Asked) > MaxTxnBytes {
			return codes.Errorf(codes.TooLarge, "what the token is for has %d bytes, the limit is %d", len(t.Asked), MaxTxnBytes)
		}
	}
	for i := range t.Fences {
		err := CheckPair(t.Fences[i].NS, t.Fences[i].Key)
		if err == nil && Archived(t.Fences[i].NS) {
			err = notUnseen(t.Fences[i].NS)
		}
		if err != nil {
			return in("if_fence", i, len(t.Fences), err)
		}
	}
	for i := range t.If {
		if err := t.If[i].check(); err != nil {
			return in("compare", i, len(t.If), err)
		}
	}
	for _, ops := range [2][]Op{t.Then, t.Else} {
		grants := 0
		for i := range ops {
			if err := t.checkOp(&ops[i]); err != nil {
				return in("operation", i, len(ops), err)
			}
			if ops[i].Kind == OpGrant {
				grants++
			}
			if grants > 1 {
				return codes.Errorf(codes.TooManyOps, "operation %d grants a second lease, the limit of one transaction is 1", i)
			}
		}
	}
	if size := t.Size(); size > mostBytes {
		return codes.Errorf(codes.TooLarge, "transaction has %d bytes of keys and values, the limit is %d", size, mostBytes)
	}
	return nil
}

// checkOp checks an operation, and that the transaction may carry it out.
func (t *Txn) checkOp(op *Op) error {
	if err := op.check(); err != nil {
		return err
	}
	if op.Writes() {
		if err := t.mayWrite(op.NS); err != nil {
			return err
		}
	}
	if Archived(op.NS) && (op.Kind != OpPut && op.Kind != OpDelete || op.TTL != 0 || op.Expires != 0 || op.Lease != 0 || op.WantPrev) {
		return notUnseen(op.NS)
	}
	return nil
}

func notUnseen(ns string) error {
	return codes.Errorf(codes.BadOp, "the entries of namespace %.64q are on disk only: they are put and deleted by key, without conditions, times and leases", ns)
}

func (t *Txn) mayWrite(ns string) error {
	owner := Guarded(ns)
	if t.System || owner == "" {
		return nil
	}
	return codes.Errorf(codes.Reserved, "namespace %.64q belongs to %s: it can be read here, and is written by the operations of %s", ns, owner, owner)
}

// Relieves reports whether the transaction writes nothing but the books of player storage: what
// is landed, and what has left memory. Without them nothing can leave, so that they may be
// written when the store is full.
func (t *Txn) Relieves() bool {
	if !t.System {
		return false
	}
	for i := range t.Then {
		if t.Then[i].NS != LandingNamespace {
			return false
		}
	}
	return true
}

// Size is how many bytes of keys and values the transaction has.
func (t *Txn) Size() (n int) {
	for i := range t.If {
		n += len(t.If[i].Value.Data)
	}
	for _, ops := range [2][]Op{t.Then, t.Else} {
		for i := range ops {
			n += len(ops[i].Key) + len(ops[i].Value.Data)
		}
	}
	return n
}

// in adds to an error which part is wrong, if there are several.
func in(what string, i, n int, err error) error {
	if n == 1 {
		return err
	}
	return codes.Errorf(codes.Of(err), "%s %d: %w", what, i, err)
}

// CheckPair combines CheckNamespace and CheckKey.
func CheckPair(ns, key string) error {
	if err := CheckNamespace(ns); err != nil {
		return err
	}
	return CheckKey(key)
}

func (c *Compare) check() error {
	if err := CheckPair(c.NS, c.Key); err != nil {
		return err
	}
	switch {
	case Archived(c.NS):
		return notUnseen(c.NS)
	case c.Target < CompareValue || c.Target > CompareMod:
		return codes.Errorf(codes.BadRequest, "compare has no known target")
	case c.Relation < Equal || c.Relation > Greater:
		return codes.Errorf(codes.BadRequest, "compare has no known relation")
	case c.Target == CompareValue && c.Value.Type != 0:
		return c.Value.Check()
	case len(c.Value.Data) > MaxValue:
		return codes.Errorf(codes.TooLarge, "value to compare has %d bytes, the limit is %d", len(c.Value.Data), MaxValue)
	}
	return nil
}

func (op *Op) check() error {
	has := op.Kind.Members()
	switch {
	case has == 0:
		return codes.Errorf(codes.BadOp, "there is no such operation")
	case has&MemberTTL != 0:
		if op.TTL < MinLease || op.TTL > MaxLease {
			return codes.Errorf(codes.BadTTL, "a lease of %s is out of range: the limits are %s and %s", op.TTL, MinLease, MaxLease)
		}
		return nil
	case has&MemberPrefix != 0:
		return op.checkDeletePrefix()
	case has&MemberKey == 0:
		return nil
	}
	if err := CheckPair(op.NS, op.Key); err != nil || !op.Kind.Sets() {
		return err
	}
	if err := op.checkTime(); err != nil {
		return err
	}
	if op.Lock && (op.Kind != OpPut || op.Lease == 0) {
		return codes.Errorf(codes.BadRequest, "a lock is a key that is put with the lease of its holder")
	}
	if has&MemberValue != 0 {
		if op.Value.Type == Removed && !Reserved(op.NS) {
			return codes.Errorf(codes.BadType, "type %s is only for namespaces of player storage; use bytes", Removed)
		}
		if err := op.CheckValue(); err != nil {
			return err
		}
	}
	if op.Seal && has&MemberSeal == 0 {
		return codes.Errorf(codes.BadRequest, "only a value that is put can be sealed; what is counted cannot")
	}
	if has&MemberBy != 0 && op.Min != nil && op.Max != nil && *op.Min > *op.Max {
		return codes.Errorf(codes.BadRequest, "min %d is above max %d", *op.Min, *op.Max)
	}
	return nil
}

// CheckValue is Check of the value of an OpPut. Of one that is to be sealed the error tells nothing.
func (op *Op) CheckValue() error {
	err := op.Value.Check()
	if err != nil && op.Seal {
		return codes.Errorf(codes.Of(err), "the value to be sealed is too large, or not of type %s", op.Value.Type)
	}
	return err
}

func (op *Op) checkDeletePrefix() error {
	if op.Limit < 0 {
		return codes.Errorf(codes.BadRequest, "limit %d is negative", op.Limit)
	}
	if err := CheckNamespace(op.NS); err != nil {
		return err
	}
	switch {
	case !op.Unconfirmed():
	case op.Confirm == "":
		return codes.Errorf(codes.Unconfirmed, "deleting all keys of namespace %q must be confirmed: give the name of the namespace again as confirm", op.NS)
	default:
		return codes.Errorf(codes.Unconfirmed, "confirm is %.40q, but the keys to delete are in namespace %q", op.Confirm, op.NS)
	}
	return CheckPrefix(op.Key)
}

// Unconfirmed reports whether the operation lacks the right Confirm, which Check refuses.
func (op *Op) Unconfirmed() bool {
	return op.Kind == OpDeletePrefix && op.Confirm != op.NS && (op.Key == "" || op.Confirm != "")
}

func (op *Op) checkTime() error {
	switch {
	case op.TTL < 0:
		return codes.Errorf(codes.BadTTL, "ttl of %d ms is negative", op.TTL.Milliseconds())
	case op.TTL > 0 && op.TTL < time.Millisecond:
		return codes.Errorf(codes.BadTTL, "ttl of %s is below a millisecond", op.TTL)
	case op.TTL > MaxTTL:
		return codes.Errorf(codes.BadTTL, "ttl of %d ms is above the limit of %d", op.TTL.Milliseconds(), MaxTTL.Milliseconds())
	case op.Expires < 0:
		return codes.Errorf(codes.BadTTL, "expires %d is negative", op.Expires)
	case op.TTL > 0 && op.Expires > 0:
		return codes.Errorf(codes.BadTTL, "ttl and expires exclude each other")
	}
	return nil
}

// Commit is Store.Commit for callers that can wait. If ctx ends first, the transaction may be
// applied nonetheless.
func Commit(ctx context.Context, s Store, txn *Txn) (*Result, error) {
	return Await(ctx, nil, func(done func(*Result, error)) error { return s.Commit(txn, done) })
}

// Await calls ask, which begins something or fails, and waits until done is called. If ctx ends first, the
// error is late; nil: that of ctx.
func Await[T any](ctx context.Context, late error, ask func(done func(T, error)) error) (none T, err error) {
	type answer struct {
		res T
		err error
	}
	got := make(chan answer, 1)
	if err := ask(func(res T, err error) { got <- answer{res, err} }); err != nil {
		return none, err
	}
	select {
	case a := <-got:
		return a.res, a.err
	case <-ctx.Done():
		return none, cmp.Or(late, ctx.Err())
	}
}
