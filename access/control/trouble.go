package control

import (
	"fmt"
	"slices"
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/snapshot"
)

// first is what is in force at the start. A role that was never understood may be one that
// prohibits or marks something: until it is mended no one but administrators gets anything, and
// they change nothing alone.
func (c *Control) first() *ruling {
	if c.broken() == nil {
		return nil
	}
	return &ruling{Policy: policy.New(policy.MarkEverything())}
}

// broken are the roles that were never understood, by the names of their documents.
func (c *Control) broken() (names []string) {
	for _, f := range c.cfg.Roles.Faults() {
		if isRole(f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// stale are the roles that are broken on disk, so that an older text counts.
func stale(now *snapshot.Snapshot) (names []string) {
	for _, name := range now.Names() {
		if node := now.Node(name); isRole(name) && node.Live() && node.Broken() != "" {
			names = append(names, name)
		}
	}
	return names
}

// Trouble says which roles are broken, and what follows from it; nil: none is. It does not wait.
func (c *Control) Trouble() error {
	never, rules := c.broken(), c.rules.Load()
	var kinds []string
	if len(never) > 0 {
		when := "after the next start of the server"
		if rules.roles == nil {
			when = "until then"
		}
		kinds = append(kinds, fmt.Sprintf("broken roles, which were never in force: %s; mend or remove them: %s only administrators may do anything, and change something only with each other's approval", few(never), when))
	}
	if len(rules.stale) > 0 {
		follows := "what they said before is in force until they are mended"
		if rules.roles == nil {
			follows = "what they said before is in force once those that were never in force are mended or removed"
		}
		kinds = append(kinds, fmt.Sprintf("roles that are broken on disk: %s; %s", few(rules.stale), follows))
	}
	if len(rules.unread) > 0 {
		kinds = append(kinds, fmt.Sprintf("roles that cannot be read, so that what they say now is not in force: %s; mend or remove them", few(rules.unread)))
	}
	if kinds == nil {
		return nil
	}
	return codes.Errorf(codes.BadJSON, "%s", strings.Join(kinds, "; "))
}

// mostNamed is how many broken roles of a kind are named.
const mostNamed = 5

// few names the first few of a list, and says how many more there are.
func few(names []string) string {
	names = slices.Sorted(slices.Values(names))
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// report logs the trouble with roles when it is another one than before.
func (c *Control) report() {
	text := ""
	if err := c.Trouble(); err != nil {
		text = err.Error()
	}
	switch {
	case text == c.reported:
	case text == "":
		c.cfg.Log.Info().Msg("no role is broken any more")
	default:
		c.cfg.Log.Error().Msg(text)
	}
	c.reported = text
}
