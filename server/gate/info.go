package gate

import "confcenter/internal/roster"

// What the server knows of an identified connection.
type (
	ClientInfo       = roster.Client
	SubscriptionInfo = roster.Subscription
	LockInfo         = roster.Lock
)
