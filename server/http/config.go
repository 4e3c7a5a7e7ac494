package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/internal/jsontext"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/protocol"
)

// configRoot is the root of our own REST API for configuration. A file's name is a
// query parameter, so any name works.
const configRoot = "/v1/config/"

func (g *Gateway) configRoutes() []route {
	const get, put, del = http.MethodGet, http.MethodPut, http.MethodDelete
	if g.configFeed = newConfigFeed(g.stores.Config); g.configFeed != nil {
		g.closers = append(g.closers, g.configFeed.Close)
	}
	return []route{
		of(protocol.GetCfgName, route{method: get, pattern: configRoot + "files", name: "config.files", bare: true, handle: g.configFiles}),
		of(protocol.GetConfig, route{method: get, pattern: configRoot + "file", name: "config.get", handle: g.configGet}),
		of(protocol.SetConfig, route{method: put, pattern: configRoot + "file", name: "config.put", body: g.cfg.MaxBody, handle: g.configPut}),
		{method: del, pattern: configRoot + "file", name: "config.delete", right: access.ConfigDelete, named: true, handle: g.configDelete},
		of(protocol.GetConfig, route{method: get, pattern: configRoot + "resolved", name: "config.resolved", handle: g.configResolved}),
		{method: get, pattern: configRoot + "search", name: "config.search", right: access.ConfigRead, named: true, handle: g.configSearch},
		of(protocol.BookCfgChange, route{method: get, pattern: configRoot + "stream", name: "config.stream", stream: true, handle: g.configStream}),
		of(protocol.CfWatch, route{method: get, pattern: configRoot + "revisions", name: "config.revisions", stream: true, handle: g.configRevisions}),
	}
}

// fileState is a file as the API shows it.
type fileState struct {
	name  string
	node  *snapshot.Node // nil or not Known if it was never valid
	fault string         // why the current file cannot be served

	broken *confstore.Broken // what is wrong with it now, if it was looked at; nil: nothing
}

// The states of a file.
const (
	stateGood    = "good"
	stateBroken  = "broken"
	stateDeleted = "deleted"
)

// fileOf returns the state of a file in a snapshot, or false if there is no such
// file. A name that only inherits is not a file.
func fileOf(store *confstore.Store, now *snapshot.Snapshot, name string) (fileState, bool) {
	f := fileState{name: name, node: now.Node(name)}
	if f.node != nil && f.node.Known() {
		f.fault = f.node.Broken()
		return f, true
	}
	broken := store.NeverGood([]byte(name))
	if broken != nil {
		f.fault = broken.Reason
	}
	return f, broken != nil
}

// file returns the current state of a file.
func (g *Gateway) file(name string) (fileState, bool) {
	return fileOf(g.stores.Config, g.stores.Config.Snapshot(), name)
}

// filesOf returns all files, sorted by name.
func filesOf(store *confstore.Store, now *snapshot.Snapshot) []fileState {
	return filesAfter(store, now, "", math.MaxInt)
}

// filesAfter returns the files after a name, sorted by name, but no more than most.
func filesAfter(store *confstore.Store, now *snapshot.Snapshot, after string, most int) []fileState {
	names, faults := now.Names(), store.Faults()
	first, _ := slices.BinarySearch(names, after+"\x00")
	names = names[first:]
	for len(faults) > 0 && faults[0].Name <= after {
		faults = faults[1:]
	}
	files := make([]fileState, 0, min(len(names)+len(faults), most))
	for len(files) < cap(files) {
		if len(names) == 0 || len(faults) > 0 && faults[0].Name < names[0] {
			files = append(files, fileState{name: faults[0].Name, fault: faults[0].Text})
			faults = faults[1:]
			continue
		}
		node := now.Node(names[0])
		files = append(files, fileState{name: names[0], node: node, fault: node.Broken()})
		names = names[1:]
	}
	return files
}

func (f *fileState) known() bool { return f.node != nil && f.node.Known() }

func (f *fileState) state() string {
	switch {
	case f.fault != "":
		return stateBroken
	case !f.known() || f.node.Deleted():
		return stateDeleted
	}
	return stateGood
}

// look reads the file as it is on disk at this moment, which may be more than the store has noticed
// of it. Without a file it is codes.NotFound.
func (g *Gateway) look(w *reply, f *fileState) (text []byte, err error) {
	text, f.broken, err = g.stores.Config.Look(f.name, w.take)
	if f.broken != nil {
		f.fault = f.broken.Reason
	}
	return text, err
}

// version is the served mtime, or 0 if there is no document.
func (f *fileState) version() int64 {
	if !f.known() || f.node.Deleted() {
		return 0
	}
	return int64(f.node.Mtime(false))
}

// appendFile appends the members that describe the state of a file, and leaves the
// object open. Of its bases it names those that may be read.
func appendFile(dst []byte, f *fileState, may op.May) []byte {
	dst = appendQuoted(dst, `{"name":`, f.name)
	dst = append(append(append(dst, `,"state":"`...), f.state()...), '"')
	mtime, resolved, size := int32(0), int32(0), 0
	revision, newest := kv.Revision(0), kv.Revision(0)
	if f.known() {
		mtime, resolved = f.node.Mtime(false), f.node.Mtime(true)
		revision, newest = f.node.Revision(false), f.node.Revision(true)
		if !f.node.Deleted() {
			size = f.node.Size()
		}
	}
	dst = appendNumber(dst, `,"size":`, int64(size))
	dst = appendNumber(dst, `,"mtime":`, int64(mtime))
	dst = appendNumber(dst, `,"resolved_mtime":`, int64(resolved))
	if revision > 0 {
		dst = appendNumber(dst, `,"revision":`, int64(revision))
		dst = appendNumber(dst, `,"resolved_revision":`, int64(newest))
	}
	dst = append(dst, `,"bases":[`...)
	if f.node != nil {
		separator := ""
		for _, base := range f.node.Bases() {
			if may.Names(base) {
				dst = jsontext.AppendQuote(append(dst, separator...), base)
				separator = ","
			}
		}
	}
	dst = append(dst, ']')
	if f.fault != "" {
		dst = appendQuoted(dst, `,"error":`, f.fault)
	}
	return dst
}

// configFiles lists all files, deleted ones included.
func (g *Gateway) configFiles(w *reply, _ *http.Request) error {
	now := g.stores.Config.Snapshot()
	files := slices.DeleteFunc(filesOf(g.stores.Config, now), func(f fileState) bool { return !w.May().Names(f.name) })
	size := entryOverhead
	for i := range files {
		size += memory.VersionCost + len(files[i].name) + len(files[i].fault)
	}
	if err := w.grow(size); err != nil {
		return err
	}
	b := append(w.b, `{"files":[`...)
	for i := range files {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendFile(b, &files[i], w.May()), '}')
	}
	b = appendNumber(b, `],"seq":`, int64(now.Seq()))
	w.b = append(g.sse.IDs.Append(append(b, `,"last":"`...), int64(now.Seq())), `"}`...)
	return w.sendFresh(w.b)
}

// fileName is the file name given in the query. It must be called after all other parameters have been read.
func (p *parameters) fileName() (string, error) {
	name := p.needed("name")
	if err := p.end(); err != nil {
		return "", err
	}
	return name, confstore.CheckName(name)
}

// readName is fileName of a file that is read.
func (g *Gateway) readName(w *reply, p *parameters) (string, error) {
	name, err := p.fileName()
	if err != nil {
		return "", err
	}
	return name, g.judge(w, append(w.Things(), op.Document(policy.Read, name)))
}

func (g *Gateway) noSuchFile(name string) error {
	if broken := g.stores.Config.NeverGood([]byte(name)); broken != nil {
		return codes.Errorf(codes.NotFound, "%w", broken)
	}
	return codes.Errorf(codes.NotFound, "there is no file %q", name)
}

// rawType in Accept asks for the file's bytes instead of its description, like the
// parameter raw.
const rawType = "application/vnd.confcenter.raw+json"

// acceptsRaw reports whether the client prefers the raw form at least as much as
// the description.
func acceptsRaw(r *http.Request) bool {
	raw, plain := 0.0, 0.0
	for accepted := range strings.SplitSeq(strings.Join(r.Header["Accept"], ","), ",") {
		kind, params, err := mime.ParseMediaType(accepted)
		quality := 1.0
		if q, given := params["q"]; given && err == nil {
			quality, err = strconv.ParseFloat(q, 64)
		}
		switch {
		case err != nil:
		case kind == rawType:
			raw = quality
		case kind == contentJSON[0]:
			plain = quality
		}
	}
	return raw > 0 && raw >= plain
}

// configGet returns a file as it is on disk.
func (g *Gateway) configGet(w *reply, r *http.Request) error {
	p := parametersOf(r)
	raw, reveal := p.flag("raw") || acceptsRaw(r), p.flag("reveal")
	name, err := g.readName(w, p)
	if err != nil {
		return err
	}
	// Read the version before the text: text newer than its version causes a needless
	// conflict, but older text would overwrite someone else's change.
	file, found := g.file(name)
	if !raw && file.state() == stateGood && unchanged(r, file.tag(), true) {
		return w.sendUnchanged(file.tag())
	}
	text, err := g.look(w, &file)
	if !found && file.broken == nil {
		return g.noSuchFile(name)
	}
	if raw {
		return g.sendRaw(w, r, &file, text, err, reveal)
	}
	text, err = textOf(&file, text, err)
	if err == nil && reveal {
		text, err = g.revealed(w, text)
	}
	if err != nil {
		return err
	}
	if err := w.grow(quotedSize(text) + entryOverhead); err != nil {
		return err
	}
	w.setTag(file.tag())
	b := appendFile(w.b, &file, w.May())
	given := int32(0)
	if file.known() {
		given = file.node.GivenMtime()
	}
	b = appendNumber(b, `,"given_mtime":`, int64(given))
	b = appendQuoted(b, `,"tag":`, file.tag())
	if !utf8.Valid(text) {
		// The file is broken. Editing this text would change bytes that the editor cannot
		// see.
		b = append(b, `,"invalid_utf8":true`...)
		text = []byte(strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	w.b = append(jsontext.AppendQuote(append(b, `,"text":`...), text), '}')
	return w.sendFresh(w.b)
}

// sendRaw answers with the bytes of the file. Their tag is of the bytes: the version stays the same
// when only whitespace has changed. What is revealed depends on who asks, and is always sent.
func (g *Gateway) sendRaw(w *reply, r *http.Request, file *fileState, text []byte, err error, reveal bool) error {
	if file.state() == stateDeleted {
		err = g.noSuchFile(file.name)
	}
	tag := file.tag()
	if err == nil && file.broken == nil {
		tag = digestTag(file.version(), confstore.Digest(sha256.Sum256(text)))
	}
	switch {
	case err != nil:
	case reveal:
		text, err = g.revealed(w, text)
	case unchanged(r, tag, file.broken == nil):
		return w.sendUnchanged(tag)
	}
	if err != nil {
		return err
	}
	w.setTag(tag)
	w.Header()["Cache-Control"] = noStore
	w.setLength(len(text))
	return w.send(text)
}

// revealed is the text of a file with the sealed values that the caller may know. A broken one has
// none.
func (g *Gateway) revealed(w *reply, text []byte) ([]byte, error) {
	if !w.Hides(text) {
		return text, nil
	}
	if _, err := jsontext.Check(text); err != nil {
		return text, nil
	}
	if err := w.grow(len(text)); err != nil {
		return nil, err
	}
	return w.Revealed(text), nil
}

// indentation is the one that the config store writes.
const indentation = "    "

// textOf returns the text of a file that was looked at. If it cannot be read, a valid file
// is rendered from its contents, which outlive the disk, and a broken one is empty.
func textOf(file *fileState, text []byte, err error) ([]byte, error) {
	switch {
	case file.state() == stateDeleted:
		return nil, nil
	case err == nil:
		return text, nil
	case file.state() == stateBroken:
		return nil, nil // the member error says why
	case codes.Of(err) != codes.NotFound && codes.Of(err) != codes.Storage:
		return nil, err
	}
	text, _ = file.node.Contents(false) // the file is about to count as removed, or the directory is gone
	return append(jsontext.AppendIndent(nil, text, indentation), '\n'), nil
}

// configResolved returns a document with everything it inherits, and the origin of
// each part.
func (g *Gateway) configResolved(w *reply, r *http.Request) error {
	p := parametersOf(r)
	reveal := p.flag("reveal")
	name, err := g.readName(w, p)
	if err != nil {
		return err
	}
	node := g.stores.Config.Snapshot().Node(name)
	if node == nil { // a name that only inherits has a node, too
		return g.noSuchFile(name)
	}
	text, ready := node.Contents(true)
	for !ready {
		node.Prepare(true, false)
		text, ready = node.Contents(true)
	}
	if reveal {
		if text, err = g.revealed(w, text); err != nil {
			return err
		}
	}
	origins, complete := node.Origins()
	if w.Rights != nil {
		origins = slices.DeleteFunc(slices.Clone(origins), func(o snapshot.Origin) bool { return !w.May().Names(o.Name) })
	}
	size := len(text) + entryOverhead
	for i := range origins {
		size += 8 + len(origins[i].Path) + len(origins[i].Name)
	}
	if err := w.grow(size); err != nil {
		return err
	}
	b := appendQuoted(w.b, `{"name":`, name)
	b = appendNumber(b, `,"mtime":`, int64(node.Mtime(true)))
	if revision := node.Revision(true); revision > 0 {
		b = appendNumber(b, `,"revision":`, int64(revision))
	}
	b = append(append(b, `,"document":`...), text...)
	b = append(b, `,"origins":{`...)
	for i := range origins {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.AppendQuote(b, origins[i].Path)
		b = jsontext.AppendQuote(append(b, ':'), origins[i].Name)
	}
	b = append(b, '}')
	if !complete {
		b = append(b, `,"incomplete":true`...)
	}
	w.b = append(b, '}')
	return w.sendFresh(w.b)
}

// configPut writes a file. The body is the document itself and is stored byte for
// byte.
func (g *Gateway) configPut(w *reply, r *http.Request) error {
	p := parametersOf(r)
	raw := p.flag("raw")
	name, err := p.fileName()
	if err != nil {
		return err
	}
	if err := w.read(r); err != nil {
		return err
	}
	if string(bytes.TrimSpace(w.b)) == "null" {
		return codes.Errorf(codes.BadRequest, "null cannot be the contents of a file; to delete it use DELETE")
	}
	if !raw && isFileAnswer(w.b) {
		return codes.Errorf(codes.BadRequest, "the body is GET's description of a file, not a file: GET it with ?raw and send that; if %s is meant to hold exactly this, PUT it with ?raw", name)
	}
	return g.configSet(w, r, confstore.SetRequest{Name: name, Contents: w.b, Exact: true})
}

// isFileAnswer reports whether text looks like a reply of configGet without raw.
// Sending one back would put the file into itself.
func isFileAnswer(text []byte) bool {
	if !bytes.Contains(text, []byte(`"resolved_mtime"`)) { // avoids scanning large files
		return false
	}
	members, _, err := jsontext.ScanMessage(nil, text)
	if err != nil {
		return false // the store reports why
	}
	for _, name := range []string{"name", "state", "mtime", "resolved_mtime", "bases", "text"} {
		if _, found := jsontext.Find(members, name); !found {
			return false
		}
	}
	return true
}

// configDelete deletes a file.
func (g *Gateway) configDelete(w *reply, r *http.Request) error {
	name, err := parametersOf(r).fileName()
	if err != nil {
		return err
	}
	return g.configSet(w, r, confstore.SetRequest{Name: name})
}

// configSet performs a write under the condition in the headers.
func (g *Gateway) configSet(w *reply, r *http.Request, req confstore.SetRequest) error {
	cond, err := conditionOf(r)
	if err != nil {
		return err
	}
	deletes := req.Contents == nil
	if req.Actor, err = w.actor(r); err != nil {
		return err
	}
	if err := g.judge(w, op.Change(w.Things(), req.Name, deletes)); err != nil {
		return err
	}
	var res confstore.SetResult
	for {
		if err = g.demand(&req, cond); err != nil {
			break
		}
		if res, err = g.setAndWait(req); cond.kind != ifThere || codes.Of(err) != codes.Conflict || errors.As(err, new(*confstore.Broken)) {
			break
		}
	}
	now, found := g.file(req.Name)
	switch {
	case codes.Of(err) == codes.Conflict:
		return g.conflict(w, &now, err)
	case codes.Of(err) == codes.Timeout:
		w.b = nil // the store may still need the body
		return err
	case err != nil:
		return err
	case !found: // there is nothing to delete, and never was
		return g.noSuchFile(req.Name)
	case !deletes:
		w.setETag(int64(res.Mtime))
	}
	w.b = appendQuoted(w.b[:0], `{"name":`, req.Name) // the store no longer needs the body
	w.b = append(appendNumber(w.b, `,"mtime":`, int64(res.Mtime)), '}')
	return w.sendFresh(w.b)
}

// conflict answers a write that was refused with err.
func (g *Gateway) conflict(w *reply, now *fileState, err error) error {
	_, _ = g.look(w, now)
	w.setTag(now.tag())
	switch {
	case errors.As(err, new(*confstore.Broken)):
		return err
	case now.broken != nil:
		return codes.Errorf(codes.Conflict, "%w; nothing was written: read it and decide", now.broken)
	}
	return codes.Errorf(codes.Conflict, "%s is not as the request expects: its version is %d (0: there is none); read it again and decide", now.name, now.version())
}

// demand adds the condition to the request. It returns codes.Conflict if the
// condition cannot hold.
func (g *Gateway) demand(req *confstore.SetRequest, cond condition) error {
	switch cond.kind {
	case ifAnything:
		return nil
	case ifIs:
		if cond.value != int64(int32(cond.value)) {
			return codes.Conflict
		}
		req.IfMtime, req.Base = int32(cond.value), cond.file
	case ifThere:
		file, found := g.file(req.Name)
		if !found || file.version() == 0 {
			return codes.Conflict
		}
		req.IfMtime = int32(file.version())
	case ifNever:
		return codes.Conflict
	}
	req.HasIfMtime = true
	return nil
}

// setAndWait returns when the write is durable or has failed. It does not return
// earlier if the peer goes away, because the write stands either way.
func (g *Gateway) setAndWait(req confstore.SetRequest) (confstore.SetResult, error) {
	return kv.Await(context.Background(), nil, func(done func(confstore.SetResult, error)) error { return g.stores.Config.Set(req, done) })
}
