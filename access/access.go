// Package access has the vocabulary of permissions. Every write carries an [Actor], and
// every row of the command and route tables names a [Right].
package access

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// The origins of an Actor: the way by which a change came in.
const (
	OverTCP   = "tcp"      // a connection that has sent WHOAMI
	OverHTTP  = "http"     // our own paths and Plum's
	InConsole = "console"  // the console's pages, over HTTP
	OnDisk    = "file"     // a file was changed directly on disk
	Rollback  = "rollback" // something is made as it was, over any of these
	Release   = "release"  // a step of a release
	Server    = "server"   // the server itself
)

// Actor is who makes a change. The requests of a connection share it, so it must not be
// modified once it has been passed on. A nil Actor means that the actor is unknown.
//
// What peers say of themselves proves nothing: Name, Comment and Token, and Author without an
// Identity.
type Actor struct {
	Name    string // of the program, for a TCP client CppCloud's ID-CLITYPE@SVRNAME
	Author  string // the person, as the request, the commit or the file's owner has it; empty: not known
	Origin  string // one of the constants above
	Address string // of the peer, with its port; empty if the change came from no connection
	Comment string // the actor's reason, in its own words
	Commit  string // of git, in hexadecimal, if a file came with one
	Token   string // of the request
	// Source is whose documents a change brings, so that the next one of the same can tell what was
	// changed by others since; empty: it is no such change.
	Source string
	// Approver is who approved of it, by the name that was proved, if an approval was needed. Only
	// the model of reviews says so, when it makes the change.
	Approver string
	// Identity is who it was proved to be; nil without access control, and of changes that came
	// from no connection.
	Identity *Identity
}

// Administrator reports whether the actor has proved to be one.
func (a *Actor) Administrator() bool { return a.Proved().Administrator() }

// Identity is who asks, as it was proved. It never changes.
type Identity struct {
	Name   string   // with its kind: "token:NAME", "cert:SUBJECT", "person:ADDRESS", "listener:NAME"
	Groups []string // as the token, the certificate or the provider has them
	// Certificate is what it was proved by, in DER; nil: it was proved by something else. Names and
	// groups alone say who someone is.
	Certificate []byte `json:",omitempty"`
	// Token and Session are the ids of what it was proved by, likewise; Token is also the one that the
	// session was made from, and Issuer the provider that vouched for who began it.
	Token   string `json:",omitempty"`
	Session string `json:",omitempty"`
	Issuer  string `json:",omitempty"`
}

// Administrators is the group that may do everything, whatever the roles say. So there is
// someone who can mend them.
const Administrators = "administrators"

// Has reports whether the identity, nil without access control, may use what belongs to owner: the
// name decides. What has no owner is for administrators only, and so is everything else.
func (id *Identity) Has(owner *Identity) bool {
	return id == nil || owner != nil && owner.Name == id.Name || id.Administrator()
}

// Administrator reports whether the identity is an administrator; nil, which is no one, is not.
func (id *Identity) Administrator() bool {
	return id != nil && slices.Contains(id.Groups, Administrators)
}

// Proved is who the actor was proved to be; nil: nothing was proved.
func (a *Actor) Proved() *Identity {
	if a == nil {
		return nil
	}
	return a.Identity
}

// Who is the name of who the actor was proved to be; empty: nothing was proved.
func (a *Actor) Who() string {
	if id := a.Proved(); id != nil {
		return id.Name
	}
	return ""
}

// Has is [Identity.Has] of who the actor was proved to be.
func (a *Actor) Has(owner *Identity) bool { return a.Proved().Has(owner) }

// By is who made a change, for those who ask later: what was proved comes first, and what was said of a
// person in brackets behind it.
func (a *Actor) By() string {
	switch {
	case a == nil:
		return ""
	case a.Approver != "":
		asked := *a
		asked.Approver = ""
		return asked.By() + ", approved by " + a.Approver
	case a.Identity == nil:
		return cmp.Or(a.Author, a.Name)
	case a.Author == "":
		return a.Identity.Name
	}
	author := a.Author
	if strings.ContainsAny(author, `"(),`) { // it might say that someone else has approved
		author = strconv.Quote(author)
	}
	return a.Identity.Name + " (" + author + ")"
}

// String is the actor as the operation log shows it.
func (a *Actor) String() string {
	switch {
	case a == nil:
		return ""
	case a.Name != "":
		return a.Address + "@" + a.Name
	case a.Address != "":
		return a.Origin + " " + a.Address
	}
	return a.Origin
}
