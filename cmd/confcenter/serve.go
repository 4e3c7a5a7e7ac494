package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/cmd/confcenter/kvverbs"
	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/settings"
)

func serveCommand(a *verb.App) *cobra.Command {
	var o serving.Options
	var configFile string
	var printConfig, checkConfig bool
	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve a directory of configuration files",
		Long: `Serve gives programs on --listen the JSON files in --conf and tells them when a file
they use changes, whether another program changed it or a person with an editor, git
or scp. It also keeps the state that programs write, in --data.

A setting comes from its flag; else from its environment variable, for example
CONFCENTER_MAX_CONNECTIONS for --max-connections; else from the file named by
--config or CONFCENTER_CONFIG; else it has its default. Unknown variables and keys
are errors. Relative paths start at the working directory.

SIGTERM and SIGINT stop the server. It finishes what it has begun, within
--drain-timeout. A second signal, at least a second later, stops it at once with
exit code 1. SIGHUP rereads the configuration files. The log goes to standard error,
as text on a terminal and as JSON lines otherwise. Once it serves, it prints on standard
output where the console is.`,
		Example: `  confcenter serve
  confcenter serve --conf /etc/myfleet/conf --data /var/lib/confcenter --listen 127.0.0.1:4801
  CONFCENTER_LOG_LEVEL=debug confcenter serve --config confcenter.conf

  # write a config file with the settings now in force
  confcenter serve --print-config > confcenter.conf`,
		Args:              verb.Arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := command.Flags()
	o.Define(f)
	f.StringVar(&configFile, "config", "", "settings file with lines of \"key = value\", where a key is a flag's name without dashes and # starts a comment")
	f.BoolVar(&printConfig, "print-config", false, "print every setting and where it comes from, as a config file, and exit")
	f.BoolVar(&checkConfig, "check-config", false, "check the settings and exit")
	f.VisitAll(func(flag *pflag.Flag) {
		if c, is := flag.Value.(*settings.Choice); is {
			verb.CompleteChoice(command, c, flag.Name)
		}
	})
	_ = command.MarkFlagDirname("conf")
	_ = command.MarkFlagDirname("data")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if value, ok := settings.Lookup(a.Environ, configVariable); ok && !f.Changed("config") {
			configFile = value
		}
		set, err := o.Resolve(configFile, a.Environ, slices.Concat(foreign, verb.Variables()))
		if err != nil {
			return verb.UsageError{Err: err}
		}
		if printConfig { // even bad settings: it helps to find out why
			if err := set.Print(a.Stdout); err != nil {
				return err
			}
		}
		if err := o.Check(); err != nil {
			return verb.UsageError{Err: err}
		}
		if printConfig || checkConfig {
			return nil
		}
		return failed(o.Serve(command.Context(), a.Stdout, a.Stderr, version))
	}
	return command
}

// configVariable has the path of the config file, which cannot name itself.
const configVariable = serving.Prefix + "_CONFIG"

// foreign are environment variables that are those of no flag, or of one verb's only.
var foreign = append([]string{configVariable, variableFrom, serving.SecretVariable, serving.KeyVariable}, kvverbs.LockVariables...)

// failed replaces the code of err, which is about requests to a server: a server that does
// not start, or not stop, has failed.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return codes.Errorf(codes.Internal, "%w", err)
}
