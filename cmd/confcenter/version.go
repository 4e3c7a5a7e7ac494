package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
			b := buildOf(buildTags())
			if output.json() {
				return a.printJSON(b)
			}
			return a.printf("%v\n", b)
		},
	}
	output.define(command, "output", "o", "output format")
	return command
}

// build is what version tells of the program.
type build struct {
	Version  string   `json:"version"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Tags     []string `json:"tags"` // with which it was built, never nil
}

func buildOf(tags []string) build {
	return build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Tags: append([]string{}, tags...)}
}

func (b build) String() string {
	facts := []string{b.Go, b.Platform}
	if len(b.Tags) > 0 {
		facts = append(facts, "tags "+strings.Join(b.Tags, ","))
	}
	return fmt.Sprintf("confcenter %s (%s)", b.Version, strings.Join(facts, ", "))
}

// buildTags are those of this program, as the go command has noted them.
func buildTags() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, set := range info.Settings {
		if set.Key == "-tags" && set.Value != "" {
			return strings.Split(set.Value, ",")
		}
	}
	return nil
}
