package verb

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"confcenter/internal/settings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// form is a form of a verb's arguments, from its usage line.
type form struct {
	words  string   // as help shows them
	needed []string // mandatory arguments
	most   int
}

// forms reads a usage line such as "set NAME [FILE|-] | set NAME PATH VALUE".
func forms(use string) []form {
	var all []form
	for _, alternative := range strings.Split(use, " | ") {
		_, words, _ := strings.Cut(alternative, " ")
		f := form{words: words}
		for _, word := range strings.Fields(words) {
			if strings.HasPrefix(word, "--") {
				break
			}
			if f.most++; !strings.HasPrefix(word, "[") {
				f.needed = append(f.needed, strings.TrimSuffix(word, "…"))
			}
			if strings.HasSuffix(word, "…") {
				f.most = math.MaxInt
			}
		}
		all = append(all, f)
	}
	return all
}

// Arguments accepts the forms of the usage line, and names what is missing or too many.
func Arguments(command *cobra.Command, args []string) error {
	all := forms(command.Use)
	most := 0
	var words []string
	for _, f := range all {
		if len(args) >= len(f.needed) && len(args) <= f.most {
			return nil
		}
		most = max(most, f.most)
		words = append(words, strings.TrimSpace(command.CommandPath()+" "+f.words))
	}
	takes := strings.Join(words, " or ")
	if len(args) > most {
		return fmt.Errorf("%q is one argument too many; usage: %s", args[most], takes)
	}
	shortest := slices.IndexFunc(all, func(f form) bool { return len(args) < len(f.needed) })
	missing := all[shortest].needed[len(args):]
	if len(missing) == 1 {
		return fmt.Errorf("%s is missing; usage: %s", missing[0], takes)
	}
	last := len(missing) - 1
	return fmt.Errorf("%s and %s are missing; usage: %s", strings.Join(missing[:last], ", "), missing[last], takes)
}

// FlagError adds a hint if the unknown flag looks like a negative number, or like a known one.
func FlagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && strings.IndexAny(unknown.GetSpecifiedShortnames(), ".0123456789") == 0 {
		return fmt.Errorf("%w; if it is a number, put -- before the arguments", err)
	}
	var invalid *pflag.InvalidValueError
	if why := settings.Reason(err); why != err && errors.As(err, &invalid) {
		return fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", invalid.GetValue(), invalid.GetFlag().Name, why)
	}
	if unknown != nil {
		var flags []string
		command.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if meant := near(unknown.GetSpecifiedName(), flags); len(meant) > 0 {
			return fmt.Errorf("%w; did you mean --%s?", err, meant[0])
		}
	}
	return err
}

// near are those of the names that word may be a slip of. Cobra knows, and only of commands.
func near(word string, names []string) []string {
	var all cobra.Command
	for _, name := range names {
		if strings.Contains(name, " ") {
			continue // to cobra the rest would be arguments
		}
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	all.SuggestionsMinimumDistance = 2
	return all.SuggestionsFor(word)
}

// OnlyVerbs accepts no arguments: what is none of a group's verbs may be a slip.
func OnlyVerbs(group *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], group.CommandPath())
	group.SuggestionsMinimumDistance = 2
	if meant := group.SuggestionsFor(args[0]); len(meant) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(meant, "\n\t") + "\n"
	}
	return errors.New(text)
}

// Grouped gives a group its verbs. needs is said where none of them is given.
func Grouped(group *cobra.Command, needs string, verbs ...*cobra.Command) *cobra.Command {
	group.Args = OnlyVerbs
	group.RunE = func(*cobra.Command, []string) error { return Usagef("%s", needs) }
	group.AddCommand(verbs...)
	return group
}
