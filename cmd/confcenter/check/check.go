// Package check looks at a directory of documents as a server would read it, without one: check prints what it
// finds, and apply sends nothing if it finds anything.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"confcenter/access/policy"
	"confcenter/confstore"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// Limits of what a server reads: the defaults of confstore.
const (
	maxDocument = confstore.MaxFile
	maxDepth    = 32 // of directories; symlinks can make any depth
)

// Finding is one problem. Line and Column count from 1, the column in characters; 0 means
// that the problem has no position.
type Finding struct {
	File   string `json:"file"` // relative to the directory checked, with slashes
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Text   string `json:"text"`
}

// Place names the file, below the directory, and the line and column if there are any.
func (f Finding) Place(dir string) string {
	file := filepath.Join(dir, filepath.FromSlash(f.File))
	if f.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, f.Line, f.Column)
}

// Report is what was found in a directory.
type Report struct {
	Files   int       // documents, broken ones too
	Found   []Finding // problems; never nil
	Notes   []Finding // on what is served as it stands, though probably not as it was meant; never nil
	Skipped []string  // names of what is no document
}

// Directory checks a directory with all that its documents say of each other, and its roles.
func Directory(dir string) (*Report, error) {
	c := newChecker()
	c.take = func(name string, _ fs.FileInfo, text []byte) {
		role, ok := strings.CutPrefix(name, policy.RolePrefix)
		if !ok {
			return
		}
		if _, err := policy.ParseRole(strings.TrimSuffix(role, ".json"), text); err != nil {
			c.report(name, "%v", err)
		}
	}
	return c.read(dir, c.checkMeta)
}

// Read checks each document of a directory by itself, and returns them. What has changed meanwhile is a
// problem.
func Read(dir string) (files map[string][]byte, r *Report, err error) {
	files, infos := map[string][]byte{}, map[string]fs.FileInfo{}
	c := newChecker()
	c.take = func(name string, info fs.FileInfo, text []byte) { files[name], infos[name] = text, info }
	r, err = c.read(dir, func() {
		for name, was := range infos {
			is, err := c.root.Stat(name)
			if err != nil || is.Size() != was.Size() || is.Size() != int64(len(files[name])) || !is.ModTime().Equal(was.ModTime()) {
				c.report(name, "has changed while the directory was read; apply it again")
			}
		}
	})
	return files, r, err
}

// checker reads one directory. It opens everything through root, as the server
// does, so that a symlink out of the directory is found.
type checker struct {
	Report
	root     *os.Root
	files    map[string]bool                                  // names of documents, broken ones too
	metaText []byte                                           // nil if there is no valid _meta.json
	noObject map[string]bool                                  // documents that are something else
	take     func(name string, info fs.FileInfo, text []byte) // is given each valid document
}

func newChecker() *checker {
	return &checker{Report: Report{Found: []Finding{}, Notes: []Finding{}}, files: map[string]bool{}, noObject: map[string]bool{}}
}

// read checks a directory; last is called when all of it has been read.
func (c *checker) read(dir string, last func()) (*Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c.root = root
	top, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	c.walk(".", []fs.FileInfo{top})
	c.compareNames()
	last()
	for _, list := range [...][]Finding{c.Found, c.Notes} {
		slices.SortStableFunc(list, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
	c.Files = len(c.files)
	return &c.Report, nil
}

// compareNames notes those that are one name to other machines.
func (c *checker) compareNames() {
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		folded := norm.NFC.String(strings.ToLower(norm.NFC.String(name)))
		other, twice := first[folded]
		if !twice {
			first[folded] = name
			continue
		}
		how, quoted := "in case", strconv.Quote(other)
		if norm.NFC.String(other) == norm.NFC.String(name) {
			how, quoted = "in how its characters are composed", strconv.QuoteToASCII(other)
		}
		c.note(name, "differs from %s only %s; some file systems have only one of them", quoted, how)
	}
}

func (c *checker) note(file, format string, args ...any) {
	c.Notes = append(c.Notes, Finding{File: file, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) report(file, format string, args ...any) {
	c.Found = append(c.Found, Finding{File: file, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) reportAt(file string, line, column int, text string) {
	c.Found = append(c.Found, Finding{File: file, Line: line, Column: column, Text: text})
}

// walk checks directory dir and those below it; above are the directories on the way to
// it, including itself.
func (c *checker) walk(dir string, above []fs.FileInfo) {
	entries, err := fs.ReadDir(c.root.FS(), dir)
	if err != nil {
		c.report(dir, "cannot be read: %v", cause(err))
		return
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue // used by editors, git and Kubernetes
		}
		name := path.Join(dir, entry.Name())
		info, err := c.root.Stat(name) // follows symlinks that stay inside, as the server does
		switch {
		case err != nil && confstore.LinksToNothing(c.root, name) != "":
			c.report(name, "%s", confstore.LinksToNothing(c.root, name))
		case err != nil:
			c.report(name, "cannot be read: %v", cause(err))
		case info.IsDir():
			c.directory(name, info, above)
		case strings.HasSuffix(name, ".json"):
			c.file(name, info)
		case strings.EqualFold(path.Ext(name), ".json"):
			c.note(name, "is not served: its name does not end in .json, in lower case")
			fallthrough
		default:
			c.Skipped = append(c.Skipped, name)
		}
	}
}

func (c *checker) directory(name string, info fs.FileInfo, above []fs.FileInfo) {
	switch {
	case slices.ContainsFunc(above, func(up fs.FileInfo) bool { return os.SameFile(up, info) }):
		c.report(name, "is a symlink to a directory that it is in; it is not followed")
	case len(above) >= maxDepth:
		c.report(name, "is nested too deeply and not looked at")
	default:
		c.walk(name, append(slices.Clip(above), info))
	}
}

func (c *checker) file(name string, info fs.FileInfo) {
	if err := confstore.CheckName(name); err != nil {
		c.report(name, "%v", err)
		return
	}
	if !info.Mode().IsRegular() {
		c.report(name, "is not a regular file")
		return
	}
	c.files[name] = true
	if info.Size() > maxDocument {
		c.report(name, "is larger than the limit of %d bytes", maxDocument)
		return
	}
	text, err := c.root.ReadFile(name)
	if err != nil {
		c.report(name, "cannot be read: %v", cause(err))
		return
	}
	kind, err := jsontext.CheckUTF8(text)
	if err == nil {
		err = jsontext.Twice(text)
	}
	if err != nil {
		line, column, reason := Position(text, err)
		c.reportAt(name, line, column, reason)
		return
	}
	if c.noObject[name] = kind != jsontext.Object; name == meta.FileName {
		c.metaText = text
	}
	if fault := confstore.RoleFault(c.root, name); fault != "" {
		c.report(name, "%s", fault)
	}
	c.take(name, info, text)
}

// Position tells where and why text is not JSON.
func Position(text []byte, err error) (line, column int, reason string) {
	var syntax *jsontext.SyntaxError
	if !errors.As(err, &syntax) {
		return 0, 0, err.Error()
	}
	line, column = syntax.Position(text)
	return line, column, syntax.Reason
}

func (c *checker) checkMeta() {
	if c.metaText == nil {
		return
	}
	m, problems, err := meta.Parse(c.metaText)
	if err != nil {
		c.reportAt(meta.FileName, 1, 1, err.Error())
		return
	}
	lacks := func(name string) string {
		switch {
		case !c.files[name]:
			return meta.Absent
		case c.noObject[name]:
			return meta.NoObject
		}
		return ""
	}
	for _, p := range append(problems, m.CheckEach(lacks)...) {
		f := Finding{File: meta.FileName, Text: p.Text}
		if at := p.Offset(c.metaText); at >= 0 {
			f.Line, f.Column = (&jsontext.SyntaxError{Offset: at}).Position(c.metaText)
		}
		if p.Name != meta.FileName {
			f.Text = fmt.Sprintf("%q: %s", p.Name, p.Text)
		}
		if p.Note {
			c.Notes = append(c.Notes, f)
		} else {
			c.Found = append(c.Found, f)
		}
	}
}

// cause is err without the operation and path, which the message names already.
func cause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
