package replica

import "confcenter/kv"

// oneIf counts a key that has a lease.
func oneIf(id kv.LeaseID) int64 {
	if id == 0 {
		return 0
	}
	return 1
}

func (t tally) stock() kv.Stock { return kv.Stock{Keys: t.keys, Bytes: t.bytes, Leased: t.leased} }

// Obey has q judge what transactions take from now on, besides the limits of the store. Any goroutine
// may call it.
func (s *Store) Obey(q kv.Quotas) { s.committer.group.quotas.Store(&q) }

// withinQuotas asks whether the namespaces may have what they would have by the transaction under
// way, which has touched these keys, and all before it, those of its group included.
func (t *terms) withinQuotas(touched []*change) error {
	quotas := t.quotas.Load()
	if quotas == nil {
		return nil
	}
	var asked *space // mostly there is only one
	for _, ch := range touched {
		sp := ch.space
		if sp == asked {
			continue
		}
		asked = sp
		if err := (*quotas).Namespace(sp.name, sp.began.stock(), sp.next.stock()); err != nil {
			return err
		}
	}
	return nil
}

// StockOf is what a namespace has visibly. Any goroutine may call it.
func (s *Store) StockOf(ns string) kv.Stock { return s.index.seen(ns).stock() }

// mayGrant asks whether whoever asks for a transaction may have one lease more.
func (t *terms) mayGrant(l *leases, txn *kv.Txn) error {
	quotas, who := t.quotas.Load(), txn.Actor.Proved()
	if quotas == nil || who == nil || txn.System {
		return nil
	}
	return (*quotas).Lease(who, l.of(who.Name))
}

// LeasesOf is how many leases belong to whoever has that name. Any goroutine may call it.
func (s *Store) LeasesOf(name string) int { return s.leases.of(name) }
