package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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

// arguments accepts the forms of the usage line, and names what is missing or too many.
func arguments(command *cobra.Command, args []string) error {
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
