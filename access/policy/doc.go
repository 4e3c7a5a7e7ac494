// Package policy decides who may do what. A [Policy] is made of roles, which are JSON
// documents:
//
//	{
//	  "about": "what programs of the game may see",
//	  "rules": [
//	    {"name": "own files", "who": ["token:game-*"], "allow": ["read", "watch"], "what": ["config:game/*", "kv:match"]},
//	    {"name": "no secrets", "who": ["*"], "deny": ["*"], "what": ["config:game/secret*"]}
//	  ]
//	}
//
// A rule says who may, or may not, do which things (verbs) with what. Nothing is allowed that
// no rule allows, and a rule that denies beats all that allow.
//
// Who is an [access.Identity]: "token:NAME", "cert:SUBJECT", "person:ADDRESS", "listener:NAME", or one
// of its groups, "group:NAME". The name may end in "*", which stands for anything; "*" alone is
// everyone.
//
// What is "CLASS:PATTERN", or a class alone for everything in it, or "*" for everything at all.
// See [Class] for the classes and the parts of their names. A pattern is a name, or the
// beginning of names followed by "*". In classes whose names have several parts these are
// separated by "/", and fewer of them stand for everything below. A part is percent-encoded as
// in a URL if it contains "/", "%" or "*".
//
// Besides rules, a role can name what changes only with another person's approval, no matter who asks:
//
//	{"approval": ["config:live/*", "kv:live/limits*"], "rules": []}
//
// And it can limit how much each of some identities, or each of some namespaces, may have. Of
// several quotas about the same the least counts:
//
//	{"quotas": [
//	  {"who": ["token:game-*"], "connections": 100, "requests": 2000, "bytes": 10000000},
//	  {"what": ["kv:match"], "keys": 100000, "size": 100000000}
//	]}
//
// The package is pure. It neither reads roles from somewhere nor knows of requests.
package policy
