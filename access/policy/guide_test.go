package policy_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
)

// Anyone who copies a role from the guide gets what the guide says.
func TestTheRolesOfTheGuideAllowWhatItSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/access.md")
	require.NoError(t, err)
	section := regexp.MustCompile("(?s)\n### Roles to copy\n.*?\n## ").Find(text)
	require.NotNil(t, section)
	var roles []*policy.Role
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(section, -1) {
		role, err := policy.ParseRole("guide", block[1])
		require.NoError(t, err, "%s", block[1])
		roles = append(roles, role)
	}
	require.Len(t, roles, 4)
	p := policy.New(roles...)
	developer, reader := &access.Identity{Name: "person:dev@example.org", Groups: []string{"game-dev"}}, &access.Identity{Name: "person:r@example.org", Groups: []string{"readers"}}
	service, ann := &access.Identity{Name: "token:game-1"}, &access.Identity{Name: "person:ann@example.org"}
	for _, c := range []struct {
		who     *access.Identity
		verb    policy.Verb
		class   policy.Class
		name    string
		allowed bool
	}{
		{developer, policy.Delete, policy.Config, "game/a.json", true}, {developer, policy.Write, policy.Config, "live/a.json", false}, {developer, policy.Grant, policy.Roles, "", false},
		{reader, policy.Read, policy.Config, "game/a.json", true}, {reader, policy.Read, policy.Config, "secret/a.json", false}, {reader, policy.Write, policy.Config, "game/a.json", false},
		{service, policy.Read, policy.Config, "game/a.json", true}, {service, policy.Reveal, policy.Config, "game/db.json", true}, {service, policy.Reveal, policy.Config, "game/a.json", false}, {service, policy.History, policy.Config, "game/a.json", false},
		{ann, policy.Approve, policy.Config, "live/a.json", true}, {ann, policy.Grant, policy.Roles, "", true}, {ann, policy.Write, policy.Config, "game/a.json", false},
	} {
		require.Equal(t, c.allowed, p.Explain(c.who, c.verb, c.class, c.name).Allowed, "%s %s %s:%s", c.who.Name, c.verb, c.class, c.name)
	}
	require.True(t, p.Marks().Has(policy.Config, []byte("live/a.json")))
	require.True(t, p.Marks().Has(policy.Roles, nil))
}
