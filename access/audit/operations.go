package audit

import (
	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// Operations is what can be asked of an Audit, in the order of their numbers on the wire: new ones
// go to the end.
var Operations = []op.Operation{
	op.Define("lines", access.AuditRead, "GET lines", "lists lines of the audit: who did what, and what was refused", (*Audit).Lines).
		Refuses(codes.NotImplemented, "the server keeps no audit"),
	op.Define("verify", access.AuditRead, "GET verify", "checks that no line of the audit was changed or removed", (*Audit).Verify).
		Refuses(codes.NotImplemented, "the server keeps no audit"),
	op.Define("head", access.AuditRead, "GET head", "tells the end of the audit's chain, to be kept elsewhere", (*Audit).Head).
		Refuses(codes.NotImplemented, "the server keeps no audit"),
}
