package client

import (
	"context"

	"confcenter/kv"
	"confcenter/protocol"
)

// KeepLease gives any lease its full time again, by number; a Lease of this client
// renews itself. The error is codes.LeaseGone if the lease has ended.
func (c *Client) KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return c.aboutLease(ctx, protocol.KVAlive, id)
}

// LeaseInfo describes any lease, by number. The error is codes.LeaseGone if it has
// ended.
func (c *Client) LeaseInfo(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return c.aboutLease(ctx, protocol.KVLeaseInfo, id)
}

func (c *Client) aboutLease(ctx context.Context, cmd protocol.Command, id kv.LeaseID) (kv.Lease, error) {
	l, err := ask(ctx, c, cmd, protocol.AppendKVLeaseID(begin(cmd), id), protocol.ParseKVLease)
	return l, during(err, "lease %d", id)
}

// StoreStats returns the statistics of the server's state store.
func (c *Client) StoreStats(ctx context.Context) (protocol.KVStats, error) {
	stats, err := ask(ctx, c, protocol.KVStat, append(begin(protocol.KVStat), "{}"...), protocol.ParseKVStats)
	return stats, during(err, "store stats")
}
