package token

import (
	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// Operations is what can be asked of Tokens, in the order of their numbers on the wire: new ones
// go to the end.
var Operations = []op.Operation{
	op.Define("token", access.RolesGrant, "POST token", "makes a token, and shows it this once", (*Tokens).Make).
		Refuses(codes.Limit, "there are as many tokens as there may be").
		Refuses(codes.Forbidden, "its owner could do what you may not, or the group or the name is not yours to give"),
	op.Define("tokens", access.RolesRead, "GET tokens", "lists tokens, but not their texts", (*Tokens).List),
	op.Define("revoke", access.RolesGrant, "POST revoke", "ends a token, with everything that depends on it", (*Tokens).Revoke).
		Refuses(codes.NotFound, "there is no such token").
		Refuses(codes.Forbidden, "its owner may do what you may not"),
	op.Define("can", access.RolesRead, "GET can", "tells whether someone may do something, and which rules say so", (*Tokens).Can).
		Refuses(codes.NotImplemented, "the server has no access control"),
	op.Define("sessions", access.RolesRead, "GET sessions", "lists the sessions of people at the console", (*Tokens).Sessions),
	op.Define("end", access.RolesGrant, "POST end", "ends a session at the console, or all of one person or program", (*Tokens).End).
		Refuses(codes.NotFound, "there is no such session").
		Refuses(codes.Forbidden, "its owner may do what you may not"),
	op.Define("quotas", access.RolesRead, "GET quotas", "tells what a person, a program or a namespace may have, and what they use", (*Tokens).Quotas).
		Refuses(codes.NotImplemented, "the server has no access control"),
}
