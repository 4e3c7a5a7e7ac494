package control

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/kv"
)

// Leases are where leases are kept; an engine of the state store.
type Leases interface {
	// Owned are the leases that have an owner.
	Owned() []kv.LeaseID
	// Holding tells about a lease with its keys. codes.LeaseGone.
	Holding(id kv.LeaseID) (kv.Holding, error)
}

// watchLeases ends the leases of those who may no longer have them. A lease outlives connections
// and restarts, so it does not end with them.
func (c *Control) watchLeases(ctx context.Context) {
	late := true // leases from before the start are looked at, even if nothing has changed
	for ctx.Err() == nil {
		changed := c.wait(ctx, rest, c.judge)
		if !changed && !late {
			continue
		}
		// A request that was judged before the change may grant a lease after it, so there is
		// another look.
		late = changed
		if err := c.endLeases(ctx); err != nil && ctx.Err() == nil {
			late = true
			c.cfg.Log.Warn().Err(err).Msg("leases of those who may no longer have them could not be ended; it is tried again")
		}
	}
}

// endLeases ends the leases that may not be any more.
func (c *Control) endLeases(ctx context.Context) (failed error) {
	all := c.cfg.Leases.Owned()
	if len(all) == 0 {
		return nil
	}
	tokens, err := c.cfg.Tokens.Identities(ctx)
	if err != nil {
		return err
	}
	for _, id := range all {
		h, err := c.cfg.Leases.Holding(id)
		if err != nil || h.Owner == nil || c.mayHold(&h, tokens) {
			continue
		}
		end := &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: id}}, System: true, Actor: &access.Actor{Origin: access.Server}}
		if _, err := c.cfg.Store.Txn(ctx, end); err != nil && codes.Of(err) != codes.LeaseGone {
			failed = err
		}
	}
	return failed
}

// mayHold reports whether the owner of a lease may still have it. tokens has those whose tokens are
// valid.
func (c *Control) mayHold(h *kv.Holding, tokens map[string]bool) bool {
	owner := h.Owner
	switch {
	case strings.HasPrefix(owner.Name, policy.ByToken):
		if !tokens[token.KeyOf(owner)] {
			return false
		}
	case !strings.HasPrefix(owner.Name, policy.AsPerson):
		owner = &access.Identity{Name: owner.Name} // only the settings give it groups
	}
	return c.caller(owner).Holds(h)
}
