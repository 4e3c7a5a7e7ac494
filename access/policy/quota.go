package policy

import (
	"fmt"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Limits of the quotas in a role.
const (
	MaxQuotas   = 1_000   // in one role
	MaxQuotaWho = 100     // in one quota; likewise of what it is about
	MaxAmount   = 1 << 50 // of anything
)

// Limit is something that a quota can limit.
type Limit uint8

// The limits. Roles call them by their names, see [Limit.String].
const (
	Connections Limit = iota // at a time, over TCP and HTTP together
	Requests                 // a second
	Bytes                    // of requests, a second
	Watches                  // at a time
	Leases                   // of an identity: that it was granted; of a namespace: keys that have one
	Keys
	Size   // of keys and values, in bytes
	Limits // how many limits there are
)

var limitNames = [Limits]string{"connections", "requests", "bytes", "watches", "leases", "keys", "size"}

// String is what roles call it.
func (l Limit) String() string { return limitNames[l] }

// What can be limited of an identity, and of a namespace.
var (
	ofIdentity  = []Limit{Connections, Requests, Bytes, Watches, Leases}
	ofNamespace = []Limit{Requests, Bytes, Watches, Leases, Keys, Size}
)

// OfIdentity are the limits that an identity can have.
func OfIdentity() []Limit { return ofIdentity }

// OfNamespace are the limits that a namespace can have: one of keys, or what another class has
// instead, of which the server itself keeps the keys.
func OfNamespace(c Class) []Limit {
	if c == KV {
		return ofNamespace
	}
	return ofNamespace[:2]
}

// Quota is how much an identity, or a namespace, may have. It never changes.
type Quota struct {
	Most [Limits]int64  // 0: any amount
	By   [Limits]string // the quota that says so: the role, and which of its quotas
}

// quota is one quota of a role.
type quota struct {
	name string // of the role and the quota, as people are told
	// who each may have so much for itself, or each of the namespaces in what
	who  []who
	what []pattern
	most [Limits]int64
}

// parseQuotas reads the quotas of a role.
func (r *Role) parseQuotas(it jsontext.Iter) error {
	return elements(it, MaxQuotas, func(i int, it jsontext.Iter) error {
		q, err := parseQuota(it.Raw())
		if err != nil {
			return within(fmt.Sprintf("quota %d", i+1), err)
		}
		q.name = fmt.Sprintf("%s, quota %d%s", r.name, i+1, q.name)
		r.quotas = append(r.quotas, q)
		return r.count(len(q.who) + len(q.what))
	})
}

func parseQuota(text []byte) (quota, error) {
	var q quota
	of := map[string]func(jsontext.Iter) error{
		"name": func(it jsontext.Iter) error {
			name, err := prose(it, MaxText)
			q.name = fmt.Sprintf(" %q", name)
			return err
		},
		"who": func(it jsontext.Iter) error {
			return texts(it, MaxQuotaWho, func(text string) error {
				w, err := parseWho(text)
				q.who = append(q.who, w)
				return err
			})
		},
		"what": func(it jsontext.Iter) error {
			return texts(it, MaxQuotaWho, func(text string) error {
				p, err := parseSpaces(text)
				q.what = append(q.what, p)
				return err
			})
		},
	}
	for l, name := range limitNames {
		of[name] = func(it jsontext.Iter) (err error) {
			q.most[l], err = amount(it)
			return err
		}
	}
	if err := members(text, of); err != nil {
		return q, err
	}
	return q, q.check()
}

// amount is how much there may be of something.
func amount(it jsontext.Iter) (int64, error) {
	n, ok := jsontext.Int64(it.Raw())
	if it.Kind() != jsontext.Number || !ok || n < 1 || n > MaxAmount {
		return 0, codes.Errorf(codes.BadRequest, "expected a whole number from 1 to %d; leave it out for no limit", int64(MaxAmount))
	}
	return n, nil
}

// spaces are the classes with namespaces, and how many parts of a name are that of one.
var spaces = map[Class]int{KV: 1, Storage: 2, Flow: 1, Bench: 0}

// parseSpaces reads which namespaces a quota is about.
func parseSpaces(text string) (pattern, error) {
	list, err := parseWhat(text)
	if err != nil {
		return pattern{}, err
	}
	p := list[0]
	parts, ok := spaces[p.class]
	if n := strings.Count(p.text, sep); !ok || len(list) > 1 || n > parts || n == parts && p.class != Flow && p.class != Bench && !strings.HasSuffix(p.text, sep) {
		return p, codes.Errorf(codes.BadRequest, "%q: a quota is about namespaces as a whole: write kv:NAMESPACE, kv:BEGINNING*, or kv for each of them; likewise storage:APP/REGION, flow:SCOPE and bench", text)
	}
	return p, nil
}

const sep = string(rune(separator))

// ParseNamespace reads the name of one namespace as roles have it: kv:NAMESPACE,
// storage:APP/REGION, flow:SCOPE or bench. codes.BadRequest: it is none.
func ParseNamespace(text string) (c Class, parts []string, err error) {
	p, err := parseSpaces(text)
	if n := spaces[p.class]; err == nil && n > 0 {
		parts = strings.Split(strings.TrimSuffix(p.text, sep), sep)
		if len(parts) != n || p.many != (n < classTable[p.class].parts) || p.many && !strings.HasSuffix(p.text, sep) {
			err = codes.BadRequest
		}
	}
	if err != nil {
		return 0, nil, codes.Errorf(codes.BadRequest, "%.80q is neither an identity, such as token:NAME, nor a namespace: kv:NAMESPACE, storage:APP/REGION, flow:SCOPE or bench", text)
	}
	return p.class, parts, nil
}

// check refuses quotas that say nothing.
func (q *quota) check() error {
	about, subject := ofIdentity, "an identity"
	switch {
	case len(q.who) == 0 && len(q.what) == 0:
		return codes.Errorf(codes.BadRequest, "who and what are missing; name identities as who, or namespaces as what")
	case len(q.who) > 0 && len(q.what) > 0:
		return codes.Errorf(codes.BadRequest, "it has who and what; make two quotas, one for identities and one for namespaces")
	case len(q.what) > 0:
		about, subject = ofNamespace, "a namespace"
		if i := slices.IndexFunc(q.what, func(p pattern) bool { return p.class != KV }); i >= 0 {
			about, subject = OfNamespace(q.what[i].class), q.what[i].class.String()
		}
	}
	if q.most == [Limits]int64{} {
		return codes.Errorf(codes.BadRequest, "it limits nothing; %s can have %s", subject, limitList(about))
	}
	for l, n := range q.most {
		if n != 0 && !slices.Contains(about, Limit(l)) {
			return codes.Errorf(codes.BadRequest, "%s has no limit of %s; there are %s", subject, Limit(l), limitList(about))
		}
	}
	return nil
}

func limitList(list []Limit) string {
	var names []string
	for _, l := range list {
		names = append(names, l.String())
	}
	return strings.Join(names, ", ")
}

// add has what q says count, if it is less than what counts so far.
func (all *Quota) add(q *quota) *Quota {
	if all == nil {
		all = new(Quota)
	}
	for l, n := range q.most {
		if n != 0 && (all.Most[l] == 0 || n < all.Most[l]) {
			all.Most[l], all.By[l] = n, q.name
		}
	}
	return all
}

// Quota is how much id may have: of what several quotas limit, the least. nil: there is no limit,
// as for administrators.
func (p *Policy) Quota(id *access.Identity) (all *Quota) {
	if id.Administrator() {
		return nil
	}
	for i := range p.quotas {
		if q := &p.quotas[i]; slices.ContainsFunc(q.who, func(w who) bool { return w.is(id) }) {
			all = all.add(q)
		}
	}
	return all
}

// QuotaOf is how much a namespace may have, likewise. It is named as [ParseNamespace] has it.
func (p *Policy) QuotaOf(c Class, parts ...string) (all *Quota) {
	name := strings.Join(parts, sep)
	if len(parts) < classTable[c].parts {
		name += sep
	}
	for i := range p.quotas {
		if q := &p.quotas[i]; slices.ContainsFunc(q.what, func(what pattern) bool { return what.class == c && what.matches(name) }) {
			all = all.add(q)
		}
	}
	return all
}

// LimitsNamespaces reports whether any quota is about namespaces.
func (p *Policy) LimitsNamespaces() bool {
	return slices.ContainsFunc(p.quotas, func(q quota) bool { return len(q.what) > 0 })
}

// Loosens returns the first quota of r that next, which takes its place, does not have, or has with
// more. ok is false if there is none. A nil r limits nothing, and so does a nil next.
func (r *Role) Loosens(next *Role) (quotaName string, ok bool) {
	if r == nil {
		return "", false
	}
	var limited lists
	if next != nil {
		for i := range next.quotas {
			limited.add(next.quotas[i].about())
		}
	}
	for i := range r.quotas {
		old := &r.quotas[i]
		if !limited.have(old.about(), func(i int) bool { return next.quotas[i].asLow(old) }) {
			return old.name, true
		}
	}
	return "", false
}

func (q *quota) about() []thing { return thingsOf(q.who, q.what, 0) }

// asLow reports whether q limits everything that old does, and as much.
func (q *quota) asLow(old *quota) bool {
	for l, n := range old.most {
		if n != 0 && (q.most[l] == 0 || q.most[l] > n) {
			return false
		}
	}
	return true
}
