package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
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

func (a *app) checkCommand() *cobra.Command {
	return a.offline(&cobra.Command{
		Use:   "check DIR",
		Short: "Check a directory of configuration files, as a server would read it",
		Long: `Check reads DIR as a server would, without a server. Every file must be valid JSON
with an allowed name, and the bases, inheritance options and main configurations
in _meta.json must exist and make sense, and the roles in _access say what
roles can.

Each problem is printed on a line, FILE:LINE:COLUMN: TEXT. The exit code is 1 if
there is any. Notes are about what is in force as it stands, though probably not as it
was meant; they leave the exit code as it is. Files that are not served, because their
names do not end in .json, are named on standard error.`,
		Example: `  confcenter check ./conf
  confcenter check -o json ./conf

  # refuse a commit that breaks the configuration (.git/hooks/pre-commit)
  exec confcenter check ./conf`,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}, func(_ context.Context, c *connection, args []string) error { return c.check(args[0]) })
}

func (v *connection) check(dir string) error {
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
	if err := c.read(dir, c.checkMeta); err != nil {
		return fmt.Errorf("the directory cannot be checked: %w", err)
	}
	if err := v.printFindings(dir, c); err != nil {
		return err
	}
	v.app.noteSkipped(c)
	if len(c.found) > 0 {
		return fmt.Errorf("%s: %d problems", dir, len(c.found))
	}
	if len(c.files) == 0 {
		return fmt.Errorf("%s: there are no configuration files; is it the right directory?", dir)
	}
	return nil
}

func (v *connection) printFindings(dir string, c *checker) error {
	all := map[string]any{"ok": len(c.found) == 0, "files": len(c.files), "problems": c.found, "notes": c.notes, "skipped": notNil(c.skipped)}
	return v.show(all, func() error {
		err := errors.Join(printList(v.app.stdout, dir, "", c.found), printList(v.app.stdout, dir, "note: ", c.notes))
		if err != nil || len(c.found) > 0 || len(c.files) == 0 {
			return err
		}
		return v.app.printf("%s: %d files, no problems\n", dir, len(c.files))
	})
}

// noteSkipped names what is in a directory and is no document: who has put it there may wonder.
func (a *app) noteSkipped(c *checker) {
	const some = 10
	if len(c.skipped) == 0 {
		return
	}
	names := make([]string, min(some, len(c.skipped)))
	for i := range names {
		names[i] = textOf(reflect.ValueOf(c.skipped[i]))
	}
	list := strings.Join(names, ", ")
	if more := len(c.skipped) - some; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(a.stderr, "note: not served, because their names do not end in .json: %s\n", list)
}

// printList prints a line for each of what was found, in which nothing but its end does anything to the
// log that it gets into.
func printList(to io.Writer, dir, kind string, list []finding) error {
	for _, f := range list {
		if _, err := fmt.Fprintf(to, "%s: %s%s\n", visible(f.place(dir)), kind, visible(f.Text)); err != nil {
			return err
		}
	}
	return nil
}

// visible is a text on one line, in which what cannot be seen is escaped.
func visible(text string) string {
	return lineEnds.Replace(string(appendEscaped(nil, []byte(text))))
}

var lineEnds = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`)

// finding is one problem. Line and Column count from 1, the column in characters; 0 means
// that the problem has no position.
type finding struct {
	File   string `json:"file"` // relative to the directory checked, with slashes
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Text   string `json:"text"`
}

func (f finding) place(dir string) string {
	file := filepath.Join(dir, filepath.FromSlash(f.File))
	if f.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, f.Line, f.Column)
}

// checker reads one directory. It opens everything through root, as the server
// does, so that a symlink out of the directory is found.
type checker struct {
	root     *os.Root
	files    map[string]bool // names of documents, broken ones too
	metaText []byte          // nil if there is no valid _meta.json
	found    []finding
	skipped  []string                                         // names of what is no document
	notes    []finding                                        // on what is served as it stands, though probably not as it was meant
	noObject map[string]bool                                  // documents that are something else
	take     func(name string, info fs.FileInfo, text []byte) // if not nil, is given each valid document
}

func newChecker() *checker {
	return &checker{files: map[string]bool{}, found: []finding{}, notes: []finding{}, noObject: map[string]bool{}}
}

// read checks a directory; last is called when all of it has been read.
func (c *checker) read(dir string, last func()) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	c.root = root
	top, err := root.Stat(".")
	if err != nil {
		return err
	}
	c.walk(".", []fs.FileInfo{top})
	c.compareNames()
	last()
	for _, list := range [...][]finding{c.found, c.notes} {
		slices.SortStableFunc(list, func(a, b finding) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
	return nil
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
	c.notes = append(c.notes, finding{File: file, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) report(file, format string, args ...any) {
	c.found = append(c.found, finding{File: file, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) reportAt(file string, line, column int, text string) {
	c.found = append(c.found, finding{File: file, Line: line, Column: column, Text: text})
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
			c.skipped = append(c.skipped, name)
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
		line, column, reason := jsonPosition(text, err)
		c.reportAt(name, line, column, reason)
		return
	}
	if c.noObject[name] = kind != jsontext.Object; name == meta.FileName {
		c.metaText = text
	}
	if fault := confstore.RoleFault(c.root, name); fault != "" {
		c.report(name, "%s", fault)
	}
	if c.take != nil {
		c.take(name, info, text)
	}
}

// jsonPosition tells where and why text is not JSON.
func jsonPosition(text []byte, err error) (line, column int, reason string) {
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
		f := finding{File: meta.FileName, Text: p.Text}
		if at := p.Offset(c.metaText); at >= 0 {
			f.Line, f.Column = (&jsontext.SyntaxError{Offset: at}).Position(c.metaText)
		}
		if p.Name != meta.FileName {
			f.Text = fmt.Sprintf("%q: %s", p.Name, p.Text)
		}
		if p.Note {
			c.notes = append(c.notes, f)
		} else {
			c.found = append(c.found, f)
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
