package client

import (
	"context"
	"fmt"

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
	body, err := c.ask(ctx, cmd, protocol.AppendKVLeaseID(protocol.BeginFrame(nil, cmd, 0), id))
	if err != nil {
		return kv.Lease{}, fmt.Errorf("lease %d: %w", id, err)
	}
	l, err := protocol.ParseKVLease(body)
	if err != nil {
		return kv.Lease{}, fmt.Errorf("lease %d: %w", id, unreadable(err))
	}
	return l, nil
}

// StoreStats returns the statistics of the server's state store.
func (c *Client) StoreStats(ctx context.Context) (protocol.KVStats, error) {
	frame := append(protocol.BeginFrame(nil, protocol.KVStat, 0), "{}"...)
	body, err := c.ask(ctx, protocol.KVStat, frame)
	if err != nil {
		return protocol.KVStats{}, fmt.Errorf("store stats: %w", err)
	}
	stats, err := protocol.ParseKVStats(body)
	if err != nil {
		return protocol.KVStats{}, fmt.Errorf("store stats: %w", unreadable(err))
	}
	return stats, nil
}
