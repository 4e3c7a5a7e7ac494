package review

import (
	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// Operations is what can be asked of Reviews, in the order of their numbers on the wire: new ones
// go to the end.
var Operations = []op.Operation{
	op.Define("list", access.ReviewRead, "GET list", "lists the changes that wait for approval, of those that you may read or approve, or have asked for", (*Reviews).List),
	op.Define("show", access.ReviewRead, "GET show", "shows a change, compared with what there is now", (*Reviews).Show).
		Refuses(codes.NotFound, "there is no such change, or you may not see it").
		Refuses(codes.Forbidden, "you may not read all that it is about"),
	op.Define("approve", access.ReviewWrite, "POST approve", "approves of a change that someone else has asked for, and makes it", (*Reviews).Approve).
		Refuses(codes.NotFound, "there is no such change, or you may not see it").
		Refuses(codes.Forbidden, "you have asked for it yourself, or may not read and approve all that it is about; or the one who asked may not make it any more").
		Refuses(codes.Conflict, "it is decided already, or what it was compared with has changed since: then it stays and can be withdrawn, and asked for again"),
	op.Define("reject", access.ReviewWrite, "POST reject", "rejects a change, which is not made", (*Reviews).Reject).
		Refuses(codes.NotFound, "there is no such change, or you may not see it").
		Refuses(codes.Forbidden, "you may not read and approve all that it is about").
		Refuses(codes.Conflict, "it is decided already"),
	op.Define("withdraw", access.ReviewWrite, "POST withdraw", "takes back a change that you have asked for", (*Reviews).Withdraw).
		Refuses(codes.NotFound, "there is no such change, or you have not asked for it").
		Refuses(codes.Conflict, "it is decided already"),
}
