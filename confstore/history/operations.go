package history

import (
	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// Operations is what can be asked of a History, in the order of their numbers on the wire: new
// ones go to the end.
var Operations = []op.Operation{
	op.Define("log", access.ConfigHistory, "GET log", "lists the changes of a document, or of all, newest first", (*History).Log).ByName(),
	op.Define("show", access.ConfigHistory, "GET show", "shows what a document was at a revision", (*History).Show).ByName(),
	op.Define("diff", access.ConfigHistory, "GET diff", "compares two revisions of a document, by line or by key path", (*History).Diff).ByName(),
	op.Define("blame", access.ConfigHistory, "GET blame", "tells who changed the values of a document last, when, and in which file", (*History).Blame).ByName(),
	op.Define("explain", access.ConfigHistory, "GET explain", "tells which files have a say in a value, and which of them wins", (*History).Explain).ByName(),
	op.Define("prune", access.HistoryWrite, "POST prune", "removes versions of documents that are both many and old", (*History).Prune),
	op.Define("rollback", access.ConfigWrite, "POST rollback", "makes a document, or all, what they were at a revision", (*History).Rollback).ByName().
		Refuses(codes.Conflict, "the document, or with all any other one, was changed while it was looked at; nothing was changed: try again").
		Refuses(codes.TokenReused, "the token was used for another change"),
	op.Define("stage", access.ConfigWrite, "POST stage", "adds documents to an apply that is too large for one question", (*History).Stage).ByName(),
	op.Define("apply", access.ConfigWrite, "POST apply", "makes documents what is said, all of them in one change or none", (*History).Apply).ByName().
		Refuses(codes.Conflict, "a document is not what base says, or with whole there is another one, or with prune or whole any other one was changed while all were looked at; nothing was changed: look again and decide").
		Refuses(codes.TokenReused, "the token was used for another change"),
	op.Define("export", access.ConfigHistory, "GET export", "lists the files of all documents, as they are or were at a revision", (*History).Export).ByName(),
	op.Define("preview", access.ConfigHistory, "POST preview", "tells what would come of a text that is not saved: the document as resolved, and who would be told", (*History).Preview).ByName(),
	op.Define("uses", access.ClientsRead, "GET uses", "tells which programs use a document, and which version of it they were told", (*History).Uses).ByName(),
}
