package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/access/secret"
	"confcenter/op"
)

// The nil caller is refused nothing, and a question that is in memory is judged without any allocation.
func TestThingsTakeNoMemory(t *testing.T) {
	require.NoError(t, (*guard.Caller)(nil).Needs(op.AllKeys(policy.Watch)))
	require.True(t, (*guard.Caller)(nil).Sees(op.AllKeys(policy.Watch)))
	c := guardtest.Caller(t, "read kv:a/*", "read storage:1/1/*", "read config:game/*")
	ns, key, file, id := []byte("a"), []byte("k"), []byte("game/b"), []byte("1")
	var room [4]op.Thing
	require.Zero(t, testing.AllocsPerRun(100, func() {
		things := append(room[:0], op.Key(policy.Read, ns, key), op.Document(policy.Read, file), op.Owner(policy.Read, id, id, id, id))
		if err := c.Needs(things...); err != nil {
			t.Fatal(err)
		}
	}))
}

// A role's secrets belong to the roles; what is not known to be anyone's is no one's.
func TestAnOriginThatIsNobodysIsNotRevealed(t *testing.T) {
	all := guardtest.Caller(t, "* config", "* kv")
	for _, origin := range []string{"", "config", "cert:a", "_access/a.json", secret.OfDocument + policy.RolePrefix + "a.json"} {
		require.False(t, all.Reveals(origin), origin)
	}
	require.True(t, guardtest.Caller(t, "grant roles").Reveals(secret.OfDocument+policy.RolePrefix+"a.json"))
}
