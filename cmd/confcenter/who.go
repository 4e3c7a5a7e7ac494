package main

import (
	"cmp"
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

// The flags of verbs that change documents. Where a question has members of these names, they
// have the same meaning.
const (
	authorFlag    = "author"
	commentFlag   = "comment"
	commentLetter = "m"
)

// defineWho gives a verb that changes a document the flags for who does it, and why.
func defineWho(command *cobra.Command, author, comment *string) {
	f := command.Flags()
	f.StringVarP(comment, commentFlag, commentLetter, "", "why; kept with the version, for log and blame")
	f.StringVar(author, authorFlag, "", "who makes the change; kept with the version (default: your login name)")
}

// signed is the author of a change: the user who is logged in, unless another one is given.
func signed(given string) string {
	if given != "" {
		return given
	}
	if me, err := user.Current(); err == nil && me.Username != "" {
		return me.Username
	}
	return cmp.Or(os.Getenv("LOGNAME"), os.Getenv("USER"))
}
