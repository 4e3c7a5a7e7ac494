package edge_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/op"
	"confcenter/server/edge"
)

// A connection counts as one of whom it was proved to be last, whichever way it came, until it ends.
func TestAConnectionCountsAsWhoItWasProvedToBe(t *testing.T) {
	role, err := policy.ParseRole("r", []byte(`{"quotas": [{"who": ["token:a", "token:b"], "connections": 1}]}`))
	require.NoError(t, err)
	book := quota.New(clocktest.NewFake(start))
	book.Set(policy.New(role))
	e, a, b := &edge.Edge{Quotas: book}, &access.Identity{Name: "token:a"}, &access.Identity{Name: "token:b"}
	front := admission.New(admission.Limits{}).Front(2, memory.HTTPCost)
	open := func(who *access.Identity) *edge.Conn {
		place, err := front.Admit(netip.MustParseAddr("127.0.0.1"))
		require.NoError(t, err)
		c := &edge.Conn{Place: place}
		require.NoError(t, c.Enter(e, who))
		return c
	}
	one, two := open(a), open(a)
	require.NoError(t, one.Settle(""))
	require.NoError(t, one.Connect(), "it is counted once")
	require.Equal(t, codes.Limit, codes.Of(two.Settle("")))
	require.NoError(t, two.Enter(e, b))
	require.NoError(t, two.Settle(""))
	require.Equal(t, codes.Limit, codes.Of(one.Enter(e, b)), "it would be one too many of the other's")
	require.True(t, one.Account.Is(a), "so it stays whose it was")
	two.Leave()
	require.NoError(t, one.Enter(e, b))
	three := open(a)
	require.NoError(t, three.Connect(), "a has none any more")
	three.Leave()
	three.Leave() // no harm
	require.NoError(t, open(a).Connect())
}

// A refusal is known to the audit for what lacks a right, and to the log for what is the server's fault.
func TestARefusalIsNotedOnce(t *testing.T) {
	var noted []access.Event
	var log strings.Builder
	e := edge.New(nil, func(e access.Event) { noted = append(noted, e) }, nil, zerolog.New(&log))
	by := &access.Actor{Origin: access.OverTCP, Address: "127.0.0.1:9"}
	r := requestBy(t, e, "read kv:b")
	e.Refused(by, "KVGET", r.Judge(start, op.Past(nil, "a", "k")))
	e.Refused(by, "KVGET", codes.Errorf(codes.BadRequest, "no matter"))
	require.Empty(t, log.String())
	e.Refused(by, "KVGET", codes.Errorf(codes.Internal, "it broke"))
	require.Len(t, noted, 1)
	require.Equal(t, access.EventDenied, noted[0].Kind)
	require.JSONEq(t, `{"level":"error","error":"it broke","request":"KVGET","peer":"127.0.0.1:9","message":"request failed"}`, log.String())
}
