package kvstore

import "confcenter/kv"

// oneIf counts a key that has a lease.
func oneIf(id kv.LeaseID) int64 {
	if id == 0 {
		return 0
	}
	return 1
}

func (t usage) stock() kv.Stock { return kv.Stock{Keys: t.keys, Bytes: t.bytes, Leased: t.leased} }

// Quotas are what of a store quotas are about. Any goroutine may use it.
type Quotas struct{ store *Store }

// Quotas has the store obey quotas, and tells what they are about.
func (s *Store) Quotas() Quotas { return Quotas{s} }

// Obey has judge asked about what transactions take from now on, besides the limits of the store.
func (q Quotas) Obey(judge kv.Quotas) { q.store.committer.group.quotas.Store(&judge) }

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

// StockOf is what a namespace has visibly.
func (q Quotas) StockOf(ns string) kv.Stock { return q.store.index.seen(ns).stock() }

// mayGrant asks whether the actor of a transaction may have one lease more, which will be theirs
// whatever part of the server grants it.
func (t *terms) mayGrant(l *leases, txn *kv.Txn) error {
	quotas, who := t.quotas.Load(), txn.Actor.Proved()
	if quotas == nil || who == nil {
		return nil
	}
	return (*quotas).Lease(who, l.of(who.Name))
}

// LeasesOf is how many leases belong to the identity of that name.
func (q Quotas) LeasesOf(name string) int { return q.store.leases.of(name) }
