package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"confcenter/cmd/confcenter/verb"

	"github.com/spf13/cobra"
)

func versionCommand(a *verb.App) *cobra.Command {
	return a.Offline(&cobra.Command{
		Use:   "version",
		Short: "Print this program's version",
		Example: `  confcenter version
  confcenter version -o json`,
	}, func(_ context.Context, c *verb.Connection, _ []string) error {
		b := buildOf(buildTags())
		return c.ShowLine(b, b)
	})
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
