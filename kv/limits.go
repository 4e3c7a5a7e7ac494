package kv

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"confcenter/codes"
)

// Limits of one request. They are the same for every engine and every edge; a
// request beyond a limit is refused with a text that names it.
const (
	MaxNamespace    = 256                        // bytes of a namespace
	MaxKey          = 1024                       // bytes of a key or prefix
	MaxToken        = 128                        // bytes of a request token
	MaxValue        = 1 << 20                    // bytes of a value
	MaxDepth        = 500                        // nesting of arrays and objects in a json value, so that it fits into any reply
	MaxOps          = 4096                       // operations of one branch of a transaction
	MaxCompares     = 256                        // compares and fences of a transaction
	MaxTxnBytes     = 8 << 20                    // bytes of keys and values in one transaction
	MaxDeletePrefix = 10_000                     // keys one OpDeletePrefix removes; ask again for more
	MaxList         = 10_000                     // entries of one page
	MaxPage         = 2 << 20                    // bytes of one page, unless its first entry is longer
	MaxHistory      = 1000                       // versions in one reply
	MaxTTL          = 100 * 365 * 24 * time.Hour // of keys
	MinLease        = 100 * time.Millisecond     // shortest lease
	MaxLease        = 24 * time.Hour             // longest lease
)

// Limits of one transaction of the server's own, see Txn.System: a change of as many documents as
// there may be is one.
const (
	MaxSystemOps      = 1 << 19   // operations of one branch
	MaxSystemTxnBytes = 512 << 20 // bytes of keys and values
)

// The namespaces that Guarded is about.
const (
	LandingNamespace, storagePrefix = "@landing", StorageRoot + "/" // Reserved as well
	StorageRoot                     = "@storage"

	FlowPrefix     = FlowRoot + "/" // of the flow layout: a namespace for each scope
	FlowRoot       = "@flow"
	BenchNamespace = "@bench" // nodes and jobs of the bench

	AccessNamespace = "@access" // tokens
	ReviewNamespace = "@review" // changes that wait for approval

	AuditNamespace = "@audit"       // what is known of the audit besides its lines
	AuditLines     = "@audit/lines" // its lines: Archived as well, and written by the store itself

	ConfigNamespace = "@conf"  // what is known of each document of the configurations
	DocumentPrefix  = "doc/"   // before the name of a document, in its key there
	archivePrefix   = "@conf/" // their versions and contents: Archived as well
)

// owners are whose the namespaces are that the server keeps to itself: each with all below it.
var owners = map[string]string{
	LandingNamespace: "player storage", StorageRoot: "player storage", FlowRoot: "the flow layout", BenchNamespace: "the bench",
	ConfigNamespace: "the configurations", AccessNamespace: "access control", ReviewNamespace: "the reviews", AuditNamespace: "the audit",
}

// GuardedRoot is the namespace that one is, or is below, which Guarded is about; "" if there is none.
func GuardedRoot(ns string) string {
	if ns == "" || ns[0] != '@' {
		return ""
	}
	root, _, _ := strings.Cut(ns, "/")
	if owners[root] == "" {
		return ""
	}
	return root
}

// Guarded says whose a namespace is that only transactions of the server's own may write to,
// see Txn.System; who may read what its owner keeps may read and watch it. "" if everyone may write to it.
func Guarded(ns string) (owner string) { return owners[GuardedRoot(ns)] }

// OfAudit reports whether a namespace belongs to the audit.
func OfAudit(ns string) bool { return ns == AuditNamespace || ns == AuditLines }

// Archived reports whether the entries of a namespace are kept on disk only: no Get, list, view
// or count finds them, no batch and no change tells of them, and they have no history. They are
// Guarded, and transactions put and delete them one by one, by key and unseen: without conditions,
// times and leases. An Archive reads them.
func Archived(ns string) bool { return strings.HasPrefix(ns, archivePrefix) || ns == AuditLines }

// Reserved reports whether a namespace belongs to player storage. It is Guarded, and its
// keys have no history: Store.GetAt and Store.History refuse them.
func Reserved(ns string) bool {
	return ns == LandingNamespace || strings.HasPrefix(ns, storagePrefix)
}

// CheckNamespace reports whether the name of a namespace is valid.
func CheckNamespace(name string) error { return checkName("namespace", name, MaxNamespace) }

// CheckKey reports whether a key is valid.
func CheckKey(key string) error { return checkName("key", key, MaxKey) }

// CheckPrefix is CheckKey for a prefix, which may be empty and may end in the
// middle of a character.
func CheckPrefix(prefix string) error {
	if len(prefix) > MaxKey {
		return tooLong("prefix", prefix, MaxKey)
	}
	if strings.IndexFunc(prefix, unicode.IsControl) >= 0 {
		return codes.Errorf(codes.BadKey, "prefix %q has control characters", prefix)
	}
	return nil
}

// CheckToken reports whether a request token is valid; "" is none.
func CheckToken(token string) error {
	if token == "" {
		return nil
	}
	return checkName("token", token, MaxToken)
}

func checkName(what, name string, limit int) error {
	switch {
	case name == "":
		return codes.Errorf(codes.BadKey, "%s is empty", what)
	case len(name) > limit:
		return tooLong(what, name, limit)
	case plain(name):
		return nil
	case !utf8.ValidString(name):
		return codes.Errorf(codes.BadKey, "%s %q is not UTF-8", what, name)
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return codes.Errorf(codes.BadKey, "%s %q has control characters", what, name)
	}
	return nil
}

// plain reports whether name is printable ASCII, as nearly all names are.
func plain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c >= 0x7F {
			return false
		}
	}
	return true
}

func tooLong(what, name string, limit int) error {
	const shown = 32
	return codes.Errorf(codes.NameTooLong, "%s %q… has %d bytes, the limit is %d", what, name[:min(shown, len(name))], len(name), limit)
}
