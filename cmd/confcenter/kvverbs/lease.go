package kvverbs

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/kv"
)

func leaseCommand(a *verb.App) *cobra.Command {
	return verb.Grouped(&cobra.Command{
		Use:   "lease",
		Short: "Grant, keep, revoke or inspect a lease",
		Long: `A lease gives several keys a common end: keys written with --lease end together
with it. It lasts for its TTL from the grant, or from the last time it was kept.`,
		Example: `  lease=$(confcenter kv lease grant 30s)
  confcenter kv put services web1 10.0.0.7:80 --lease "$lease"
  confcenter kv lease keep "$lease" --every 10s &
  confcenter kv lease info "$lease"
  confcenter kv lease revoke "$lease"`,
	}, "lease needs a verb: grant, keep, revoke or info", leaseGrantCommand(a), leaseKeepCommand(a), leaseRevokeCommand(a), leaseInfoCommand(a))
}

func leaseGrantCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "grant TTL",
		Short: "Grant a lease and print its number",
		Long: fmt.Sprintf(`Grant makes a lease of TTL, from %s to %s, and prints its number. Keeping it alive
is up to you.`, kv.MinLease, kv.MaxLease),
		Example: `  lease=$(confcenter kv lease grant 30s)`,
	}
	c := a.Connect(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		ttl, err := time.ParseDuration(args[0])
		if err != nil {
			return verb.Usagef("TTL = %s: must be a duration like 30s", args[0])
		}
		t := &kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: ttl}}, TokenNS: "lease"}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			res, err := apply(ctx, connected, t)
			if err != nil {
				return err
			}
			return c.ShowLine(newLease(res.Ops[0].Lease), res.Ops[0].Lease.ID)
		})
	}
	return command
}

// newLease is a lease in -o json; info adds left_ms and keys.
func newLease(l kv.Lease) map[string]any {
	return map[string]any{"lease": l.ID, "ttl_ms": l.TTL.Milliseconds()}
}

// leaseVerb makes a verb whose argument is the number of a lease.
func leaseVerb(a *verb.App, command *cobra.Command, run func(ctx context.Context, c *verb.Connection, connected *client.Client, id kv.LeaseID) error) *cobra.Command {
	c := a.Connect(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return verb.Usagef("LEASE = %s: must be a number printed by grant", args[0])
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			return run(ctx, c, connected, kv.LeaseID(id))
		})
	}
	return command
}

func leaseKeepCommand(a *verb.App) *cobra.Command {
	var every time.Duration
	command := &cobra.Command{
		Use:   "keep LEASE",
		Short: "Renew a lease",
		Long: `Keep gives a lease its full time again. With --every it does so repeatedly, until
it is interrupted or the lease has ended. The exit code is 3 if the lease has ended.`,
		Example: `  confcenter kv lease keep 41
  confcenter kv lease keep 41 --every 10s`,
	}
	command.Flags().DurationVar(&every, "every", 0, "renew repeatedly, at this interval; 0 = once")
	return leaseVerb(a, command, func(ctx context.Context, c *verb.Connection, connected *client.Client, id kv.LeaseID) error {
		if every < 0 {
			return verb.Usagef("every = %s: must not be negative", every)
		}
		l, err := connected.KeepLease(ctx, id)
		if err != nil {
			return err
		}
		if err = c.ShowLine(newLease(l), fmt.Sprintf("%d %s", l.ID, l.TTL)); err != nil || every == 0 {
			return err
		}
		return keepOn(ctx, connected, id, every)
	})
}

// keepOn renews the lease until ctx ends, which is its normal end. It retries while no
// server answers, since the lease may still last when one does.
func keepOn(ctx context.Context, connected *client.Client, id kv.LeaseID, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		switch _, err := connected.KeepLease(ctx, id); codes.Of(err) {
		case codes.OK, codes.Unreachable, codes.Timeout, codes.Closed:
		default:
			if ctx.Err() == nil {
				return err
			}
		}
	}
}

func leaseRevokeCommand(a *verb.App) *cobra.Command {
	return leaseVerb(a, &cobra.Command{
		Use:     "revoke LEASE",
		Short:   "End a lease and delete its keys",
		Long:    `Revoke ends a lease, deletes its keys and prints how many there were.`,
		Example: `  confcenter kv lease revoke 41`,
	}, func(ctx context.Context, c *verb.Connection, connected *client.Client, id kv.LeaseID) error {
		t := &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: id}}, TokenNS: "lease"}
		return carryOut(ctx, c, connected, t, countOf)
	})
}

func leaseInfoCommand(a *verb.App) *cobra.Command {
	return leaseVerb(a, &cobra.Command{
		Use:     "info LEASE",
		Short:   "Print how long a lease still lasts and how many keys it has",
		Example: `  confcenter kv lease info 41 -o json`,
	}, func(ctx context.Context, c *verb.Connection, connected *client.Client, id kv.LeaseID) error {
		l, err := connected.LeaseInfo(ctx, id)
		if err != nil {
			return err
		}
		out := newLease(l)
		out["left_ms"], out["keys"] = l.Left.Milliseconds(), l.Keys
		return c.ShowLine(out, fmt.Sprintf("lease %d of %s: %s left, %d keys", l.ID, l.TTL, l.Left, l.Keys))
	})
}
