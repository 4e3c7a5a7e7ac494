package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// Query names a document or a part of one.
type Query struct {
	// Name is the file's, ".json" may be left out; empty means the program's main
	// config.
	Name string
	// Path is a key path such as `/database/hosts/0`; empty means the whole
	// document.
	Path string
	// Merged asks for the document merged over the files it inherits from, as
	// programs usually want it; false for the file alone.
	Merged bool
	// Marks asks for the marks of sealed values, also if the program may know what they are: a
	// document that was read with them can be written back, and its values stay sealed.
	Marks bool
	// NewerThan, if not 0, makes GetConfig answer ErrUpToDate unless the version
	// is greater. It is ignored by Watch and Bind.
	NewerThan int32
}

// Get asks the server for a file as it stands, without what it inherits; see
// GetConfig.
func (c *Client) Get(ctx context.Context, name string) (*Document, error) {
	return c.GetConfig(ctx, Query{Name: name})
}

// GetConfig asks the server for a document. The error is codes.NotFound if the server
// has no such document. If no server answers in time, the document comes from a
// watch, a handle or the disk cache, and is Stale; if they do not have it either, the
// error is ErrUnreachable or codes.Timeout.
func (c *Client) GetConfig(ctx context.Context, q Query) (*Document, error) {
	key := feedKey{q.Name, q.Path, q.Merged, q.Marks}
	if key.name == "" {
		key.name = c.MainConfig()
	}
	if key.name == "" {
		return nil, (&Document{}).absent("")
	}
	var doc *Document
	r, err := c.send(ctx, protocol.GetConfig, queryFrame(key, q.NewerThan), reading)
	if err == nil {
		doc, err = c.document(key, r.sess.epoch, r.body)
	}
	if err == nil {
		c.cache.store(key, doc)
	}
	if lost(err) || late(err) {
		if known := c.known(key); known != nil {
			doc, err = known, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key.name, err)
	}
	if !doc.Exists() {
		return nil, doc.absent("")
	}
	return doc, nil
}

// known returns the last known state of a document without asking a server, nil if there
// is none.
func (c *Client) known(key feedKey) *Document {
	followed := partly(key, func(key feedKey) *Document {
		c.mu.Lock()
		f := c.feeds[key]
		c.mu.Unlock()
		if doc := f.known(); doc != nil {
			return doc.aged()
		}
		return nil
	})
	if followed != nil {
		return followed
	}
	return c.cache.load(key)
}

func queryFrame(key feedKey, newer int32) []byte {
	query := protocol.AppendConfigQuery(begin(protocol.GetConfig), key.name, key.path, newer, key.merged)
	if key.marks {
		query = protocol.WithMarks(query)
	}
	return protocol.FinishFrame(query, 0)
}

// document parses GETCONFIG's reply. The error is ErrUpToDate if there is nothing newer.
func (c *Client) document(key feedKey, epoch string, body []byte) (*Document, error) {
	doc := &Document{
		Name: key.name, Path: key.path, Merged: key.merged,
		epoch: epoch, stored: c.cfg.Clock.Now(), clock: c.cfg.Clock,
	}
	reply, err := protocol.ParseConfig(body)
	switch {
	case err != nil:
		return nil, unreadable(err)
	case reply.UpToDate:
		return nil, ErrUpToDate
	case codes.Code(reply.Code) == codes.NotFound:
		doc.broken = reply.Broken
		return doc, nil
	case reply.Code != 0:
		return nil, refusal(reply.Result)
	}
	doc.Mtime, doc.broken = reply.Mtime, reply.Broken
	if reply.Contents != nil {
		doc.raw = jsontext.AppendCompact(nil, reply.Contents)
	} else if key.path == "" && reply.Mtime != 0 {
		doc.raw = []byte("null") // the file's contents; at a path null means absent
	}
	if len(doc.raw) == len("{}") && reply.Deleted {
		doc.raw = nil
	}
	doc.gone = doc.raw == nil && (reply.Deleted || reply.Mtime == 0)
	return doc, nil
}

// SetRequest is a change of one file.
type SetRequest struct {
	// Name is the file's; without ".json" it means NAME.json.
	Name string
	// Contents is the new document, any JSON but null.
	Contents []byte
	// Delete deletes the file; Contents must be empty then.
	Delete bool
	// Mtime is the version the writer gives it, in seconds since 1970; nil leaves it
	// to the server. One older than the stored version is refused with codes.Older.
	Mtime *int32
	// IfMtime makes the change conditional: if the version served differs, nothing is
	// written and the error is codes.Conflict. 0 means that there is no such file.
	IfMtime *int32
	// Author is the person who makes the change, Comment why. The server keeps them with the
	// version: at most 256 bytes and 4 KiB, without control characters.
	Author, Comment string
	// Token identifies the request: with it Set may be sent again, and so may be repeated by the
	// caller, without making the change twice. At most 128 bytes.
	Token string
}

// SetResult is the outcome of a Set.
type SetResult struct {
	// Mtime is the version now served; with codes.Older and codes.Conflict, the
	// version that prevented the write.
	Mtime int32
}

// Set writes a file, durably when it returns. Without a Token it is sent at most once: if the
// connection breaks before the answer, the error is ErrUnreachable, and SafeToRetry
// tells whether the server may have seen it.
func (c *Client) Set(ctx context.Context, r SetRequest) (SetResult, error) {
	if err := r.check(); err != nil {
		return SetResult{}, err
	}
	u := protocol.ConfigUpdate{Name: r.Name, Contents: r.Contents, Said: r.said()}
	if r.Mtime != nil {
		u.Mtime = *r.Mtime
	}
	if r.IfMtime != nil {
		u.IfMtime, u.HasIfMtime = *r.IfMtime, true
	}
	how := manner{again: r.Token != "", tries: maxTries}
	reply, err := ask(ctx, c, protocol.SetConfig, protocol.AppendConfigUpdate(begin(protocol.SetConfig), u), how, protocol.ParseConfigUpdated)
	if err == nil {
		// CppCloud's wire has one number for contents that are not JSON and for what is not there,
		// which is no reason to refuse a write.
		if codes.Code(reply.Code) == codes.NotFound {
			reply.Code = int32(codes.BadJSON)
		}
		err = refusal(reply.Result)
	}
	verb := "set"
	if r.Delete {
		verb = "delete"
	}
	return SetResult{Mtime: reply.Mtime}, during(err, "%s %s", verb, r.Name)
}

func (r *SetRequest) said() access.Said {
	return access.Said{Author: r.Author, Comment: r.Comment, Token: r.Token}
}

// check refuses what the server would misunderstand: it takes absent and null contents
// for a deletion, and broken contents for a broken request.
func (r *SetRequest) check() error {
	if r.Name == "" {
		return notSent(codes.BadName, "set: the file name is empty")
	}
	if _, err := (*access.Actor)(nil).Says(r.said()); err != nil {
		return notSent(codes.Of(err), "set %s: %s", r.Name, codes.Message(err))
	}
	if r.Delete {
		if len(r.Contents) > 0 {
			return notSent(codes.BadRequest, "set %s: Delete goes without Contents", r.Name)
		}
		return nil
	}
	kind, err := jsontext.Check(r.Contents)
	var syntax *jsontext.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line, col := syntax.Position(r.Contents)
		return notSent(codes.BadJSON, "set %s: line %d, column %d: %s", r.Name, line, col, syntax.Reason)
	case kind == jsontext.Null:
		return notSent(codes.BadRequest, "set %s: null is not a document; use Delete to delete", r.Name)
	}
	return nil
}

// Remove deletes a file. Deleting a file that does not exist is not an error.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := c.Set(ctx, SetRequest{Name: name, Delete: true})
	return err
}

// FileInfo describes a file of the server. State is one of protocol.FileGood,
// FileBroken (an older version is served, Reason says what is wrong) and
// FileDeleted.
type FileInfo = protocol.ConfigFile

// Problem is something wrong with the server's files that a person should fix.
type Problem = protocol.ConfigProblem

// List describes all files of the server, in the order of their names.
func (c *Client) List(ctx context.Context) ([]FileInfo, error) {
	files, _, err := c.list(ctx)
	return files, err
}

// Problems lists what is wrong with the server's files; it is empty if all is well.
func (c *Client) Problems(ctx context.Context) ([]Problem, error) {
	_, problems, err := c.list(ctx)
	return problems, err
}

func (c *Client) list(ctx context.Context) (_ []FileInfo, problems []Problem, _ error) {
	frame := append(begin(protocol.GetCfgName), `{"detail":1}`...)
	files, err := ask(ctx, c, protocol.GetCfgName, frame, reading, func(body []byte) (files []FileInfo, err error) {
		files, problems, err = protocol.ParseConfigFiles(body)
		return files, err
	})
	return files, problems, during(err, "list")
}

// Clients returns the properties of all clients connected to the server, including
// this one, in no particular order.
func (c *Client) Clients(ctx context.Context) ([]map[string]string, error) {
	var all []map[string]string
	for after, more := 0, true; more; {
		request := fmt.Appendf(begin(protocol.GetCli), `{"after":"%d","limit":%d}`, after, clientsPage)
		page, err := ask(ctx, c, protocol.GetCli, request, reading, func(body []byte) (page []map[string]string, err error) {
			page, more, err = protocol.ParseRecords(body)
			return page, err
		})
		if err != nil {
			return nil, during(err, "clients")
		}
		all = append(all, page...)
		if more = more && len(page) > 0; more {
			next, err := strconv.Atoi(page[len(page)-1]["svrid"])
			if err != nil || next <= after {
				return nil, fmt.Errorf("clients: the server's list cannot be continued: after id %d came a page that ends with %q", after, page[len(page)-1]["svrid"])
			}
			after = next
		}
	}
	return all, nil
}

// clientsPage is how many clients are asked for at a time. Servers that do not know pages
// answer with all.
const clientsPage = 500
