package kvtest

import "confcenter/kvstore"

func capExpireEvents(c kvstore.Capabilities) bool    { return c.ExpireEvents }
func capMillisecondTTL(c kvstore.Capabilities) bool  { return c.MillisecondTTL }
func capHistoryByCount(c kvstore.Capabilities) bool  { return c.HistoryByCount }
func capManyOps(c kvstore.Capabilities) bool         { return c.ManyOps }
func capTxnLeases(c kvstore.Capabilities) bool       { return c.TxnLeases }
func capLeaseIsRevision(c kvstore.Capabilities) bool { return c.LeaseIsRevision }
func capLeasesInMemory(c kvstore.Capabilities) bool  { return c.LeasesInMemory }
func capDeletionTime(c kvstore.Capabilities) bool    { return c.DeletionTime }
func capWholeHistory(c kvstore.Capabilities) bool    { return c.HistoryAcrossDeletions && c.DeletionTime }
func capLargeTxns(c kvstore.Capabilities) bool       { return c.LargeTxns }
func capDurableTokens(c kvstore.Capabilities) bool   { return c.DurableTokens }
