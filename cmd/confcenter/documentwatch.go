package main

import (
	"errors"
	"fmt"
	"strings"

	jsoniter "github.com/json-iterator/go"

	"confcenter/client"
	"confcenter/kv"
)

// documentWatching has the arguments of a watch that tells every revision.
type documentWatching struct {
	client.DocumentWatchOptions
	changes bool // print key paths
	count   int
	printed int
}

// documentChange is a change of a document in -o json.
type documentChange struct {
	Op       string              `json:"op"`
	Revision kv.Revision         `json:"revision"`
	Name     string              `json:"name,omitempty"`
	Path     string              `json:"path,omitempty"`
	Mtime    int32               `json:"mtime,omitempty"`
	Contents jsoniter.RawMessage `json:"contents,omitempty"`
	Prev     jsoniter.RawMessage `json:"prev,omitempty"`
	Changes  []pathChange        `json:"changes,omitempty"`
	More     bool                `json:"more,omitempty"`
}

type pathChange struct {
	Path string              `json:"path"`
	Old  jsoniter.RawMessage `json:"old,omitempty"`
	New  jsoniter.RawMessage `json:"new,omitempty"`
}

// named sets what is watched by the arguments [NAME [PATH]].
func (w *documentWatching) named(args []string, prefixed bool) error {
	switch {
	case len(args) > 0 && prefixed:
		return usageError{errors.New("NAME and --prefix exclude each other")}
	case len(args) > 0:
		args = append(args, "")
		w.Name, w.Path = args[0], args[1]
	}
	return nil
}

// printRevision returns true when enough lines have been printed.
func (c *connection) printRevision(n client.DocumentNotice, w *documentWatching) (done bool, err error) {
	if n.Kind == kv.Synced || n.Kind == kv.Resync {
		return c.printDocument(documentChange{Op: n.Kind.String(), Revision: n.Revision}, w)
	}
	for i := range n.Changes {
		d := &n.Changes[i]
		line := documentChange{
			Op: kv.Put.String(), Revision: n.Revision, Name: d.Name, Path: w.Path, Mtime: d.Mtime,
			Contents: d.Contents, Prev: d.Old, More: n.Kind == kv.Changed && i+1 < len(n.Changes),
		}
		switch {
		case n.Kind == kv.State:
			line.Op = n.Kind.String()
		case d.Contents == nil:
			line.Op = kv.Delete.String()
		}
		if w.changes && n.Kind == kv.Changed {
			if line.Changes, err = pathsOf(d, w.Path); err != nil {
				return false, err
			}
			line.Path, line.Contents, line.Prev = "", nil, nil
		}
		if done, err = c.printDocument(line, w); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// pathsOf returns the values that have changed, with their paths from the top of the document.
func pathsOf(d *client.DocumentChange, below string) ([]pathChange, error) {
	paths, err := d.Paths()
	list := make([]pathChange, len(paths))
	for i, p := range paths {
		list[i] = pathChange{Path: strings.TrimRight(below, "/") + p.Path, Old: p.Old, New: p.New}
	}
	return list, err
}

// printDocument prints a line, or as text with --changes one for each path.
func (c *connection) printDocument(d documentChange, w *documentWatching) (done bool, err error) {
	lines := []string{strings.TrimSuffix(fmt.Sprintf("%d %s %s", d.Revision, d.Op, d.Name), " ")}
	switch {
	case c.json():
		err := c.app.printJSON(d)
		w.printed++
		return w.printed == w.count, err
	case len(d.Changes) > 0:
		lines = lines[:0]
		for _, p := range d.Changes {
			lines = append(lines, fmt.Sprintf("%d %s %s %s -> %s", d.Revision, d.Name, dash(p.Path), orAbsent(p.Old), orAbsent(p.New)))
		}
	case d.Name != "":
		if d.Path != "" {
			lines[0] += " " + d.Path
		}
		if d.Contents != nil {
			lines[0] += " " + string(d.Contents)
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(c.app.stdout, line); err != nil {
			return false, err
		}
		if w.printed++; w.printed == w.count {
			return true, nil
		}
	}
	return false, nil
}

func orAbsent(contents []byte) string {
	if contents == nil {
		return "absent"
	}
	return string(contents)
}
