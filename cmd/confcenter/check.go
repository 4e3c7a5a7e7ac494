package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/access/policy"
	"confcenter/confstore"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// Limits of what a server reads: the defaults of confstore.
const (
	maxDocument = 16 << 20
	maxDepth    = 32 // of directories; symlinks can make any depth
)

func (a *app) checkCommand() *cobra.Command {
	output := newOutput()
	command := &cobra.Command{
		Use:   "check DIR",
		Short: "Check a directory of configuration files, as a server would read it",
		Long: `Check reads DIR as a server would, without a server. Every file must be valid JSON
with an allowed name, and the bases, inheritance options and main configurations
in _meta.json must exist and make sense, and the roles in _access say what
roles can.

Each problem is printed on a line, FILE:LINE:COLUMN: TEXT. The exit code is 1 if
there is any. Files that are not served, because their names do not end in .json, are
named on standard error.`,
		Example: `  confcenter check ./conf
  confcenter check -o json ./conf

  # refuse a commit that breaks the configuration (.git/hooks/pre-commit)
  exec confcenter check ./conf`,
		Args: arguments,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.check(args[0], output.json()) },
	}
	output.define(command, "output", "o", "output format")
	return command
}

func (a *app) check(dir string, asJSON bool) error {
	c := checker{files: map[string]bool{}, found: []finding{}}
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
	if err := a.printFindings(dir, &c, asJSON); err != nil {
		return err
	}
	a.noteSkipped(&c)
	if len(c.found) > 0 {
		return fmt.Errorf("%s: %d problems", dir, len(c.found))
	}
	if len(c.files) == 0 {
		return fmt.Errorf("%s: there are no configuration files; is it the right directory?", dir)
	}
	return nil
}

func (a *app) printFindings(dir string, c *checker, asJSON bool) error {
	if asJSON {
		return a.printJSON(map[string]any{"ok": len(c.found) == 0, "files": len(c.files), "problems": c.found, "skipped": notNil(c.skipped)})
	}
	for _, f := range c.found {
		if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", f.place(dir), f.Text); err != nil {
			return err
		}
	}
	if len(c.found) > 0 || len(c.files) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "%s: %d files, no problems\n", dir, len(c.files))
	return err
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
	take     func(name string, info fs.FileInfo, text []byte) // if not nil, is given each valid document
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
	last()
	slices.SortStableFunc(c.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return nil
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
	_, err = jsontext.CheckUTF8(text)
	if err == nil {
		err = jsontext.Twice(text)
	}
	if err != nil {
		line, column, reason := jsonPosition(text, err)
		c.reportAt(name, line, column, reason)
		return
	}
	if name == meta.FileName {
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
	for _, p := range append(problems, m.Check(func(name string) bool { return c.files[name] })...) {
		line, column := c.mention(p.Name)
		text := p.Text
		if p.Name != meta.FileName {
			text = fmt.Sprintf("%q: %s", p.Name, p.Text)
		}
		c.reportAt(meta.FileName, line, column, text)
	}
}

// mention is where _meta.json first mentions name, with or without .json.
func (c *checker) mention(name string) (line, column int) {
	for _, spelling := range []string{name, strings.TrimSuffix(name, ".json")} {
		quoted := jsontext.AppendQuote(nil, spelling)
		if at := bytes.Index(c.metaText, quoted); at >= 0 {
			return (&jsontext.SyntaxError{Offset: at}).Position(c.metaText)
		}
	}
	return 0, 0
}

// cause is err without the operation and path, which the message names already.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
