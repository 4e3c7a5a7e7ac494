// Package settings takes a program's settings from four sources, the first of which wins:
// a flag, an environment variable, a line of a config file, the default. It remembers
// where each value came from, for people who wonder why a server does what it does.
//
// A setting has one name, that of its flag: max-connections is the flag
// --max-connections, the variable PREFIX_MAX_CONNECTIONS and the line
// "max-connections = 100". Nothing is ignored silently: an unknown key or variable is an
// error that names the nearest known one, and a value is checked even if a stronger
// source overrides it.
//
// A newcomer reads Set.Resolve; file.go is the config file's format, kinds.go has values that take more than one
// word of text, and define.go makes flags of the tags of a struct.
package settings

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Value is one setting's variable. It is the part of pflag.Value that the
// package needs, so that a flag's value is one.
type Value interface {
	Set(text string) error
	String() string
}

// Secret is a Value whose String hides a part of it.
type Secret interface {
	Value
	// Reveal is the whole text, as Set takes it.
	Reveal() string
}

// Kind is the source of a value.
type Kind string

// The sources, strongest first.
const (
	Flag    Kind = "flag"
	Env     Kind = "env"
	File    Kind = "file"
	Default Kind = "default"
)

// Origin is where a value came from. Detail is the flag with its dashes, the variable's
// name, or the file and line; it is empty for a default.
type Origin struct {
	Kind   Kind
	Detail string
}

// String is the origin for people, for example "env CONFCENTER_LISTEN".
func (o Origin) String() string {
	if o.Detail == "" {
		return string(o.Kind)
	}
	return string(o.Kind) + " " + o.Detail
}

// Entry is one setting as it stands.
type Entry struct {
	Name   string
	Value  Value
	Origin Origin
}

// Set is a program's list of settings, for one goroutine. The zero value is empty and
// reads no environment variables.
type Set struct {
	// Prefix begins the name of every environment variable of the program,
	// without the underscore: CONFCENTER.
	Prefix string
	// Foreign lists variables that begin with Prefix but belong to another part
	// of the program, by their full names.
	Foreign []string

	entries []*Entry
}

func (e *Entry) set(text string) error { return Reason(e.Value.Set(text)) }

// Reason is why a value cannot be set: it drops the function's name and the repeated text from strconv's
// errors, which mean nothing to the author of the setting.
func Reason(err error) error {
	var parse *strconv.NumError
	switch {
	case !errors.As(err, &parse):
		return err
	case parse.Func == "ParseBool":
		return errors.New("must be true or false")
	}
	return parse.Err
}

// Add adds a setting whose value is its default or, if byFlag is true, was set by its
// flag. Settings keep the order in which they were added.
func (s *Set) Add(name string, value Value, byFlag bool) {
	origin := Origin{Kind: Default}
	if byFlag {
		origin = Origin{Kind: Flag, Detail: "--" + name}
	}
	s.entries = append(s.entries, &Entry{name, value, origin})
}

// Variable is the name of the environment variable of a setting.
func (s *Set) Variable(name string) string {
	return s.Prefix + "_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Resolve sets every setting: first from the config file, then from the environment (in
// the form of os.Environ), then again from the flags. fileName is for messages; empty
// means that there is no file. All mistakes are reported together, joined; the settings
// are then unusable.
func (s *Set) Resolve(fileName, fileText string, environ []string) error {
	flags := map[*Entry]string{}
	for _, e := range s.entries {
		if e.Origin.Kind == Flag {
			flags[e] = e.Value.String()
			if secret, ok := e.Value.(Secret); ok {
				flags[e] = secret.Reveal()
			}
		}
	}
	var problems []error
	if fileName != "" {
		problems = append(problems, s.applyFile(fileName, fileText)...)
	}
	problems = append(problems, s.applyEnv(environ)...)
	for e, text := range flags {
		e.Origin = Origin{Kind: Flag, Detail: "--" + e.Name}
		if err := e.set(text); err != nil {
			problems = append(problems, fmt.Errorf("--%s=%s: %w", e.Name, text, err))
		}
	}
	return errors.Join(problems...)
}

func (s *Set) applyEnv(environ []string) []error {
	byVariable := make(map[string]*Entry, len(s.entries))
	names := append([]string(nil), s.Foreign...)
	for _, e := range s.entries {
		byVariable[s.Variable(e.Name)] = e
		names = append(names, s.Variable(e.Name))
	}
	var problems []error
	for _, pair := range environ {
		variable, text, _ := strings.Cut(pair, "=")
		if s.Prefix == "" || !strings.HasPrefix(variable, s.Prefix+"_") || s.foreign(variable) {
			continue
		}
		e, known := byVariable[variable]
		if !known {
			problems = append(problems, fmt.Errorf("environment variable %s: there is no such setting%s", variable, didYouMean(variable, names)))
			continue
		}
		if err := e.set(text); err != nil {
			problems = append(problems, fmt.Errorf("environment variable %s=%s: %w", variable, text, err))
		}
		e.Origin = Origin{Kind: Env, Detail: variable}
	}
	return problems
}

// foreign reports whether a variable is not meant as a setting: it is on the caller's
// list, or Kubernetes has set it because the namespace has a service with the program's
// name. Refusing the latter would keep a pod from starting although its owner has made no
// mistake.
func (s *Set) foreign(variable string) bool {
	return slices.Contains(s.Foreign, variable) || serviceLink.MatchString(strings.TrimPrefix(variable, s.Prefix+"_"))
}

// Find is the setting of that name, nil if there is none.
func (s *Set) Find(name string) *Entry {
	for _, e := range s.entries {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Entries are all settings in the order of Add.
func (s *Set) Entries() []*Entry { return s.entries }

// Print writes every setting, followed by its origin as a comment. The output is a valid
// config file.
func (s *Set) Print(w io.Writer) error {
	var lines []string
	width := 0
	for _, e := range s.entries {
		line := e.Name + " = " + quote(e.Value.String())
		lines = append(lines, line)
		width = max(width, len(line))
	}
	for i, e := range s.entries {
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, lines[i], e.Origin); err != nil {
			return err
		}
	}
	return nil
}
