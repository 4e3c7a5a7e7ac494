package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/check"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
)

func checkCommand(a *verb.App) *cobra.Command {
	return a.Offline(&cobra.Command{
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
	}, func(_ context.Context, c *verb.Connection, args []string) error { return checkDirectory(c, args[0]) })
}

func checkDirectory(c *verb.Connection, dir string) error {
	r, err := check.Directory(dir)
	if err != nil {
		return fmt.Errorf("the directory cannot be checked: %w", err)
	}
	if err := printFindings(c, dir, r); err != nil {
		return err
	}
	noteSkipped(c.App, r)
	if len(r.Found) > 0 {
		return fmt.Errorf("%s: %d problems", dir, len(r.Found))
	}
	if r.Files == 0 {
		return fmt.Errorf("%s: there are no configuration files; is it the right directory?", dir)
	}
	return nil
}

func printFindings(c *verb.Connection, dir string, r *check.Report) error {
	all := map[string]any{"ok": len(r.Found) == 0, "files": r.Files, "problems": r.Found, "notes": r.Notes, "skipped": notNil(r.Skipped)}
	return c.Show(all, func() error {
		err := errors.Join(printList(c.Stdout, dir, "", r.Found), printList(c.Stdout, dir, "note: ", r.Notes))
		if err != nil || len(r.Found) > 0 || r.Files == 0 {
			return err
		}
		return c.Printf("%s: %d files, no problems\n", dir, r.Files)
	})
}

// noteSkipped names what is in a directory and is no document: who has put it there may wonder.
func noteSkipped(a *verb.App, r *check.Report) {
	const some = 10
	if len(r.Skipped) == 0 {
		return
	}
	names := make([]string, min(some, len(r.Skipped)))
	for i := range names {
		names[i] = textOf(reflect.ValueOf(r.Skipped[i]))
	}
	list := strings.Join(names, ", ")
	if more := len(r.Skipped) - some; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(a.Stderr, "note: not served, because their names do not end in .json: %s\n", list)
}

// printList prints a line for each of what was found, in which nothing but its end does anything to the
// log that it gets into.
func printList(to io.Writer, dir, kind string, list []check.Finding) error {
	for _, f := range list {
		if _, err := fmt.Fprintf(to, "%s: %s%s\n", screen.Visible(f.Place(dir)), kind, screen.Visible(f.Text)); err != nil {
			return err
		}
	}
	return nil
}
