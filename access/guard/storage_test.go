package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/op"
	"confcenter/player/field"
)

var player = field.Owner{App: "1", Region: "2", Logic: "bag", ID: "42"}

func TestAWriteOfFieldsNeedsToReadWhatItTells(t *testing.T) {
	const write, read = "write storage:1/2/bag/42", "read storage:1/2/bag/42"
	for what, c := range map[string]struct {
		write field.Write
		reads bool
	}{
		"an update":                      {field.Write{Kind: field.Update}, false},
		"a removal":                      {field.Write{Kind: field.Remove}, false},
		"an increment":                   {field.Write{Kind: field.Incr}, true},
		"a restoration":                  {field.Write{Kind: field.Restore}, true},
		"an update on a condition":       {field.Write{Kind: field.Update, Expect: map[string]int64{"a": 0}}, true},
		"a removal with what was before": {field.Write{Kind: field.Remove, WantPrev: true}, true},
	} {
		c.write.Owner = player
		require.NoError(t, guardtest.Caller(t, write, read).Needs(op.Fields(nil, &c.write)...), what)
		require.Equal(t, !c.reads, guardtest.Caller(t, write).Needs(op.Fields(nil, &c.write)...) == nil, what)
		require.Equal(t, codes.Forbidden, codes.Of(guardtest.Caller(t, "* storage", "-"+write).Needs(op.Fields(nil, &c.write)...)), what)
		require.NoError(t, (*guard.Caller)(nil).Needs(op.Fields(nil, &c.write)...), what)
	}
}

func TestOwnersAreJudgedByAllPartsOfTheirNames(t *testing.T) {
	c := guardtest.Caller(t, "read storage:1/2/bag", "read storage:1/3", "-read storage:1/3/mail/7")
	for o, want := range map[field.Owner]bool{
		player: true,
		{App: "1", Region: "2", Logic: "bags", ID: "42"}: false,
		{App: "1", Region: "3", Logic: "bag", ID: "42"}:  true,
		{App: "1", Region: "3", Logic: "mail", ID: "7"}:  false,
		{App: "1", Region: "3", Logic: "mail", ID: "70"}: true,
		{App: "1", Region: "33", Logic: "bag", ID: "42"}: false,
	} {
		require.Equal(t, want, c.Needs(op.Owner(policy.Read, o.App, o.Region, o.Logic, o.ID)) == nil, o)
		require.Error(t, c.Needs(op.Owner(policy.Write, o.App, o.Region, o.Logic, o.ID)), o)
	}
	require.EqualError(t, c.Needs(op.Owner(policy.Write, player.App, player.Region, player.Logic, player.ID)), codes.Errorf(codes.Forbidden, "you may not write %q; ask an administrator for a role that allows it", "storage:1/2/bag/42").Error())
	require.NoError(t, c.Needs(op.Owners(policy.Read, "1", "2", "bag")))
	require.NoError(t, c.Needs(op.Owners(policy.Read, "1", "3", "bag")))
	for _, place := range [][3]string{{"1", "2", ""}, {"1", "2", "ba"}, {"1", "3", ""}, {"1", "3", "mail"}, {"1", "", ""}} {
		require.Equal(t, codes.Forbidden, codes.Of(c.Needs(op.Owners(policy.Read, place[0], place[1], place[2]))), place)
	}
}
