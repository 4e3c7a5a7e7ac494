package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/access/seal"
)

func TestASecretIsRevealedToThoseWithTheRightToWhereItComesFrom(t *testing.T) {
	base := guardtest.Sealed(t, "config:base.json", `{"pw":{"$seal":"hunter2"},"n":1}`)
	plain := `{"pw":"hunter2","n":1}`
	for _, c := range []struct {
		rules []string
		want  string
	}{
		{[]string{"reveal config:base.json"}, plain},
		{[]string{"reveal config:b*"}, plain},
		{[]string{"* config:heir.json"}, base},
		{[]string{"read config", "write config", "watch config", "history config", "inherit config"}, base},
		{[]string{"reveal config", "-reveal config:base.json"}, base},
		{[]string{"reveal kv"}, base},
	} {
		require.Equal(t, c.want, string(guardtest.Caller(t, c.rules...).Revealed(guardtest.Ring(), []byte(base))), c.rules)
	}
	require.Equal(t, plain, string((*guard.Caller)(nil).Revealed(guardtest.Ring(), []byte(base))), "there is no access control")
	require.Equal(t, base, string(new(guard.Caller).Revealed(guardtest.Ring(), []byte(base))))
	require.Equal(t, base, string((*guard.Caller)(nil).Revealed(nil, []byte(base))), "there is no key")
	text := []byte(plain)
	require.Same(t, &text[0], &(*guard.Caller)(nil).Revealed(guardtest.Ring(), text)[0], "nothing is copied in vain")
}

// A role's secrets belong to the roles; what is not known to be anybody's is nobody's.
func TestAnOriginThatIsNobodysIsNotRevealed(t *testing.T) {
	all := guardtest.Caller(t, "* config", "* kv")
	for _, origin := range []string{"", "config", "cert:a", "_access/a.json", seal.OfDocument + policy.RolePrefix + "a.json"} {
		require.False(t, all.Reveals(origin), origin)
	}
	require.True(t, guardtest.Caller(t, "grant roles").Reveals(seal.OfDocument+policy.RolePrefix+"a.json"))
}
