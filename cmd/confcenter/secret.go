package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/access/seal"
	"confcenter/client"
	"confcenter/codes"
	"confcenter/state/secret"
)

// keyVariable has the secret key. It is no flag: everyone on the machine sees those.
const keyVariable = envPrefix + "_SECRET_KEY"

// secretOptions are where the secret key comes from.
type secretOptions struct {
	file, command string
	text          string // of the variable; never printed
}

func (o *secretOptions) define(f *pflag.FlagSet) {
	f.StringVar(&o.file, "secret-key-file", "", "file, readable by its owner only, of the secret key by which sealed values are encrypted: 32 random bytes in hexadecimal or base64, as openssl rand -hex 32 prints them; further lines may have older keys; read again when it changes; or the variable CONFCENTER_SECRET_KEY has the key")
	f.StringVar(&o.command, "secret-key-command", "", "command of the shell that prints the secret key, instead of --secret-key-file; run at the start, and by confcenter secret rotate")
}

func (o *secretOptions) check(refuse func(format string, args ...any)) {
	given := 0
	for _, from := range []string{o.file, o.command, o.text} {
		if from != "" {
			given++
		}
	}
	if given > 1 {
		refuse("the secret key comes from one of secret-key-file, secret-key-command and %s; give one", keyVariable)
	}
}

// keyEvery is how often the file of the secret key is read.
const keyEvery = time.Second

// config is that of the data keys; what the command has to say to people goes to the log.
func (o *secretOptions) config(log zerolog.Logger) (cfg secret.Config) {
	switch {
	case o.file != "":
		cfg.Source, cfg.Every = seal.FromFile(o.file), keyEvery
	case o.command != "":
		cfg.Source = seal.FromCommand(o.command, log)
	case o.text != "":
		cfg.Source = seal.FromText(keyVariable, o.text)
	}
	return cfg
}

// secretCommand is the group of verbs for the keys of sealed values.
func (a *app) secretCommand() *cobra.Command {
	return a.modelCommand(&cobra.Command{
		Use:   "secret",
		Short: "The keys of sealed values",
		Long: `Secret tells which data keys there are, by which the server encrypts values, makes new
ones, and has older values sealed by the newest. Values are sealed by set --secret and
kv put --secret; docs/access.md has how.`,
		Example: `  confcenter secret status
  confcenter secret rotate
  confcenter secret reseal
  confcenter secret status --uses`,
	}, "secret", secret.Operations, map[string]special{"reseal": {long: true, follow: resealAll}, "status": {long: true}})
}

// resealAll takes step after step, each of which is printed. What is done stays done if it is
// interrupted.
func resealAll(_ context.Context, _ *client.Client, question, answer any, ask func() (any, error), print func(any) error) error {
	did := answer.(*secret.Resealed)
	left := did.Left
	for did.Next != "" {
		question.(*secret.ResealAsk).From = did.Next
		answer, err := ask()
		if err != nil {
			return err
		}
		did = answer.(*secret.Resealed)
		left += did.Left
		if err := print(did); err != nil {
			return err
		}
	}
	if left > 0 {
		return codes.Errorf(codes.Conflict, "%d values are sealed by older data keys still; see why", left)
	}
	return nil
}
