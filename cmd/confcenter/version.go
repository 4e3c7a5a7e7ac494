package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	output := newOutput()
	command := &cobra.Command{
		Use:   "version",
		Short: "Print this program's version",
		Example: `  confcenter version
  confcenter version -o json`,
		Args: arguments,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if output.json() {
				return a.printJSON(map[string]string{"version": version, "go": runtime.Version(), "platform": platform})
			}
			_, err := fmt.Fprintf(a.stdout, "confcenter %s (%s, %s)\n", version, runtime.Version(), platform)
			return err
		},
	}
	output.define(command, "output", "o", "output format")
	return command
}
