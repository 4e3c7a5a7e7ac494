package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/verb"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
)

// The operator's guide has every flag of serve with its default, and no other.
func TestGuideHasEveryFlagOfServe(t *testing.T) {
	for _, file := range []string{"../../docs/operator.md", "../../docs/zh/operator.md"} {
		guide, err := os.ReadFile(file)
		require.NoError(t, err)
		settings := slices.IndexFunc(strings.Split(string(guide), "\n## "), func(section string) bool { return strings.Contains(section, "| `--listen` |") })
		require.NotEqual(t, -1, settings, file)
		documented := map[string]string{}
		for _, row := range regexp.MustCompile("(?m)^\\| (`--[^|]*) \\|([^|]*)\\|").FindAllStringSubmatch(strings.Split(string(guide), "\n## ")[settings], -1) {
			defaults := regexp.MustCompile(`, |、`).Split(strings.TrimSpace(row[2]), -1)
			for i, flag := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
				documented[flag[1]] = strings.Trim(defaults[i], "`")
			}
		}
		flags := map[string]string{}
		serveCommand((&verb.App{})).Flags().VisitAll(func(f *pflag.Flag) {
			value := f.DefValue
			_, given := documented[f.Name]
			require.True(t, given, "%s has no row for --%s", file, f.Name)
			switch documented[f.Name] {
			case "on", "开":
				value = strings.Replace(value, "true", documented[f.Name], 1)
			case "off", "关", "": // what only acts has no default
				value = strings.Replace(value, "false", documented[f.Name], 1)
			}
			flags[f.Name] = regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(value, "$1")
		})
		require.Equal(t, flags, documented, file)
	}
}

// What the guides call a verb with its arguments can be typed so.
func TestGuidesOfModelsShowVerbsAsTheyAre(t *testing.T) {
	for model, operations := range map[string][]op.Operation{"flow": flow.Operations, "bench": bench.Operations} {
		guide, err := os.ReadFile("../../docs/" + model + ".md")
		require.NoError(t, err)
		for _, span := range regexp.MustCompile("`(?:confcenter )?(?:"+model+" )?([a-z-]+)((?: [A-Z]+)+)`").FindAllStringSubmatch(string(guide), -1) {
			i := slices.IndexFunc(operations, func(o op.Operation) bool { return o.Name == span[1] })
			if i < 0 {
				continue
			}
			needed, most := 0, 0
			for _, m := range op.MembersOf(operations[i].Question()) {
				if m.Arg > 0 {
					most++
					if !m.Optional {
						needed++
					}
				}
			}
			given := len(strings.Fields(span[2]))
			require.True(t, needed <= given && given <= most, "docs/%s.md: %s", model, span[0])
		}
		require.Contains(t, string(guide), "cannot connect yet", "whose own programs")
	}
}
