package confstore

import (
	"math"
	"time"

	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// planner also says what has to be done for requests.
type planner struct{ snapshot.Planner }

// verdict is what has to be done for a request.
type verdict struct {
	edit snapshot.Edit
	// nothing: everything is already as requested, including the version.
	nothing bool
	// write: the file has to be written or removed; else only the version rises.
	write    bool
	fileTime int32
	mtime    int32 // the version that is served now
}

// judge decides what to do about a request, given its text from requestText, the file as it
// is on disk at the moment, all edits of which are in the snapshot, and the reason why there
// is no room for its name, if there is one.
func (p planner) judge(req *SetRequest, text []byte, file reading, full error) (v verdict, err error) {
	n := p.Prev.Node(req.Name)
	if n.Known() {
		v.mtime = n.Mtime(false)
	}
	if err := p.refuse(req, n, file, full); err != nil {
		return v, err
	}
	if req.keep {
		v.nothing = true
		return v, nil
	}
	if !req.Exact {
		text = snapshot.AsSpelled(n, text)
	}
	v.fileTime = p.given(req, n)
	v.edit = snapshot.Edit{Name: req.Name, Text: text, Given: v.fileTime, Quiet: snapshot.SameContents(n, text) || req.resealed, Actor: req.Actor, Resealed: req.resealed}
	if text == nil && !n.Known() && file.missing { // nothing to delete
		return verdict{nothing: true, mtime: v.edit.Given}, nil
	}
	if v.edit.Quiet && !req.givesMtime() {
		v.edit.Given = n.GivenMtime()
	}
	if req.resealed {
		v.fileTime = n.GivenMtime()
	}
	if !v.edit.Quiet || v.edit.Given > n.Mtime(false) {
		if err := p.refuseVersion(req.Name); err != nil {
			return v, err
		}
	}
	there := v.edit.Quiet && file.missing == (text == nil) && file.fault == "" && file.broken(n) == nil &&
		(!req.Exact || text == nil || file.raw == log.DigestOf(req.Contents))
	v.write = !there
	v.nothing = !v.write && v.edit.Given <= n.GivenMtime()
	return v, nil
}

// requestText returns the compact text to store, nil for a deletion. It refuses text that
// would make a file of more than limit bytes, which could not be read back. What is to be sealed
// is, in the request as well.
func requestText(req *SetRequest, limit int64, ring *secret.Ring) (text []byte, err error) {
	if req.Contents == nil {
		return nil, nil
	}
	kind, err := jsontext.CheckUTF8(req.Contents)
	switch {
	case err != nil:
		return nil, codes.Errorf(codes.BadJSON, "contents of %q: %s", req.Name, faultAt(req.Contents, err))
	case kind == jsontext.Null && !req.file:
		return nil, nil
	case req.Name == meta.FileName && kind != jsontext.Object:
		return nil, codes.Errorf(codes.BadRequest, "contents of %s must be a JSON object", meta.FileName)
	}
	if err := jsontext.Twice(req.Contents); err != nil && !req.was() {
		return nil, codes.Errorf(codes.BadJSON, "contents of %q: %s; programs do not agree on which of them counts: leave one", req.Name, faultAt(req.Contents, err))
	}
	if err := req.sealed(ring); err != nil {
		return nil, err
	}
	text, size := jsontext.Compact(req.Contents), len(req.Contents)
	if !req.Exact {
		text = jsontext.Readable(text)
		size = len(text) + len(ownLayout.End)
	}
	if int64(size) > limit {
		return nil, codes.Errorf(codes.TooLarge, "contents of %q would make a file of %d bytes, the limit is %d; make them smaller", req.Name, size, limit)
	}
	return text, nil
}

// refuse returns why req must not be carried out, given what is stored.
func (p planner) refuse(req *SetRequest, n *snapshot.Node, file reading, full error) error {
	served, base := int32(0), log.Digest{}
	if n.Live() {
		served, base = n.Mtime(false), n.Hash()
	}
	if broken := file.broken(n); broken != nil {
		if err := req.overrules(broken); err != nil {
			return err
		}
		base = broken.Hash
	}
	switch {
	case file.isDir:
		return codes.Errorf(codes.BadName, "filename %q is a directory; choose another name", req.Name)
	case req.HasIfMtime && req.IfMtime != served:
		return codes.Errorf(codes.Conflict, "%s: if_mtime is %d, the stored version %d; read it again and decide", req.Name, req.IfMtime, served)
	case req.Base != nil && *req.Base != base:
		return codes.Errorf(codes.Conflict, "%s: it was to replace %s, and there is %s; read it again and decide", req.Name, fileOf(*req.Base), fileOf(base))
	case req.keep:
		return nil
	case req.HasMtime && req.Mtime > snapshot.MaxGiven:
		return codes.Errorf(codes.BadRequest, "%s: mtime %d is beyond %d; give seconds since 1970", req.Name, req.Mtime, snapshot.MaxGiven)
	case req.givesMtime() && p.tooFarAhead(req.Mtime, n):
		return codes.Errorf(codes.BadRequest, "%s: mtime %d is %s, more than a day ahead of the server's clock, and more than one above the stored version; give the current time in seconds, or omit mtime",
			req.Name, req.Mtime, snapshot.TimeOf(req.Mtime).Format(time.RFC3339))
	case req.givesMtime() && n.Known() && req.Mtime < n.GivenMtime() && snapshot.Raised(n.GivenMtime(), p.Now):
		return p.refuseVersion(req.Name) // no client's time of day would be enough
	case req.givesMtime() && n.Known() && req.Mtime < n.GivenMtime():
		return codes.Errorf(codes.Older, "%s: mtime %d is older than the stored %d; read the current version and write again", req.Name, req.Mtime, n.Mtime(false))
	}
	return full
}

// fileOf is what errors call a file.
func fileOf(d log.Digest) string {
	if d == (log.Digest{}) {
		return "no file"
	}
	return "the file " + d.String()[:12]
}

func (p planner) tooFarAhead(given int32, n *snapshot.Node) bool {
	return snapshot.Ahead(snapshot.TimeOf(given), p.Now) && !(n.Known() && given <= snapshot.After(0, n.Mtime(false))) // some give one more than they have read
}

// refuseVersion returns why a write may not raise the document's version now. It does not
// apply to edits of files, which have already happened.
func (p planner) refuseVersion(name string) error {
	of, version := p.Highest(name)
	whose := "its version"
	if of != name { // whose name its writer may not know
		whose = "the version of a file that inherits from it"
	}
	switch {
	case version == math.MaxInt32:
		return codes.Errorf(codes.Limit, "%s: %s is %d, the end of all versions; %s", name, whose, version, wayOut)
	case snapshot.Raised(version, p.Now):
		free := snapshot.TimeOf(version).Add(-snapshot.MaxRaised)
		return codes.Errorf(codes.Busy, "%s: %s, %d, runs more than two days ahead of the server's clock; try again at %s. If that is far off, correct the clock or %s",
			name, whose, version, free.Format(time.RFC3339), wayOut)
	}
	return nil
}

// wayOut is the advice where waiting does not help. Deleting the document would not help
// either, because its tombstone keeps the version.
const wayOut = "edit the file itself, which always counts, or use another name; `confcenter renumber` begins all versions again, see docs/operator.md"

// given returns the mtime of a write: the writer's, or else the current time unless
// something later is stored.
func (p planner) given(req *SetRequest, n *snapshot.Node) int32 {
	if req.givesMtime() {
		return req.Mtime
	}
	given := snapshot.Seconds(p.Now, p.Now)
	if n.Known() {
		given = max(given, n.GivenMtime())
	}
	return given
}
