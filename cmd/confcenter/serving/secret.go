package serving

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/access/seal"
	"confcenter/state/secret"
)

// KeyVariable has the secret key. It is no flag: everyone on the machine sees those.
const KeyVariable = Prefix + "_SECRET_KEY"

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
		refuse("the secret key comes from one of secret-key-file, secret-key-command and %s; give one", KeyVariable)
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
		cfg.Source = seal.FromText(KeyVariable, o.text)
	}
	return cfg
}
