package kvtest

import "confcenter/kvstore"

func capExpireEvents(c kvstore.Capabilities) bool   { return c.ExpireEvents }
func capMillisecondTTL(c kvstore.Capabilities) bool { return c.MillisecondTTL }
func capHistoryByCount(c kvstore.Capabilities) bool { return c.HistoryByCount }
func capManyOps(c kvstore.Capabilities) bool        { return c.ManyOps }
func capDurableTokens(c kvstore.Capabilities) bool  { return c.DurableTokens }
