package client

import (
	"context"

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
	// NewerThan, if not 0, makes GetConfig answer ErrUpToDate unless the version
	// is greater. It is ignored by Watch and Bind.
	NewerThan int32
}

// Get asks the server for a file as it stands, without what it inherits; see
// GetConfig.
func (c *Client) Get(ctx context.Context, name string) (*Document, error) {
	return c.GetConfig(ctx, Query{Name: name})
}

// GetConfig asks the server for a document. What the server says is not there is
// codes.NotFound. While no server answers, the disk cache is asked instead
// (Document.Stale says so); if it knows nothing either, the error is
// ErrUnreachable.
func (c *Client) GetConfig(ctx context.Context, q Query) (*Document, error) {
	return nil, ErrUnreachable
}

// SetRequest is a change of one file.
type SetRequest struct {
	// Name is the file's; without ".json" it means NAME.json.
	Name string
	// Contents is the new document, any JSON but null.
	Contents []byte
	// Delete deletes the file; Contents must be empty then.
	Delete bool
	// Mtime is the version the writer gives it, in seconds since 1970; nil leaves
	// it to the server. An older one than the stored is refused with codes.Older.
	Mtime *int32
	// IfMtime makes the change conditional: if the version served is another one,
	// nothing is written and the error is codes.Conflict. 0 stands for a file
	// that is not there.
	IfMtime *int32
}

// SetResult is what a write led to.
type SetResult struct {
	// Mtime is the version now served; with codes.Older and codes.Conflict the one
	// that stood in the way.
	Mtime int32
}

// Set writes a file, durably when it returns. It is sent at most once: if the
// connection breaks before the answer, the error is ErrUnreachable and
// SafeToRetry tells whether the server can have seen it.
func (c *Client) Set(ctx context.Context, r SetRequest) (SetResult, error) {
	return SetResult{}, ErrUnreachable
}

// Remove deletes a file; that there is none is no error.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := c.Set(ctx, SetRequest{Name: name, Delete: true})
	return err
}

// FileInfo describes a file of the server. State is one of protocol.FileGood,
// FileBroken (an older version is served, Reason says what is wrong) and
// FileDeleted.
type FileInfo = protocol.ConfigFile

// Problem is something a person should mend in the server's files.
type Problem = protocol.ConfigProblem

// List describes all files of the server, in the order of their names.
func (c *Client) List(ctx context.Context) ([]FileInfo, error) { return nil, ErrUnreachable }

// Problems is what is wrong with the server's files, nothing if all is well.
func (c *Client) Problems(ctx context.Context) ([]Problem, error) { return nil, ErrUnreachable }

// Clients are the properties of all clients that are connected to the server,
// this one included, in no particular order.
func (c *Client) Clients(ctx context.Context) ([]map[string]string, error) {
	return nil, ErrUnreachable
}
