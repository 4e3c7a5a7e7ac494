package suite

import (
	"context"
	"fmt"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"
)

// defect is a fault that the suite has to find, and the checks that find it.
type defect struct {
	name   string
	caught []string
	plant  func(b *broken)
	// lose is what a kill leaves of what was committed.
	lose func([]kvstore.Commit) []kvstore.Commit
}

var defects = []defect{
	{
		name: "lost event", caught: []string{"WatchReliable", "FeedIsOrderedAndWhole"},
		plant: func(b *broken) {
			n := 0
			told(func(c kv.Change) []kv.Change {
				if n++; n%50 == 0 {
					return nil
				}
				return []kv.Change{c}
			})(b)
		},
	},
	{
		name: "doubled event", caught: []string{"WatchUnique", "FeedIsOrderedAndWhole"},
		plant: told(func(c kv.Change) []kv.Change {
			if c.Revision%50 == 0 && len(c.Events) > 0 {
				c.Events = append(c.Events[:1:1], c.Events...)
			}
			return []kv.Change{c}
		}),
	},
	{
		name: "reordered events", caught: []string{"WatchOrdered", "FeedIsOrderedAndWhole"},
		plant: told(func(c kv.Change) []kv.Change {
			if c.Revision%20 == 0 {
				c.Events = reversed(c.Events)
			}
			return []kv.Change{c}
		}),
	},
	{
		name: "revision told in two parts", caught: []string{"WatchAtomic", "BatchIsOneRevision"},
		plant: func(b *broken) {
			b.tell = func(tell func(*kv.Batch), batch *kv.Batch) {
				for _, c := range batch.Changes {
					for i := range c.Events {
						tell(&kv.Batch{Changes: []kv.Change{{Revision: c.Revision, Time: c.Time, Events: c.Events[i : i+1]}}})
					}
				}
			}
		},
	},
	{name: "gap on resume", caught: []string{"WatchResumable", "WatchResumableAcrossRestarts"}, plant: func(b *broken) {
		b.changes = func(b *broken, after kv.Revision, maxBytes int) ([]kv.Change, error) {
			changes, err := b.Engine.Changes(context.Background(), after, maxBytes)
			if len(changes) > 1 {
				changes = changes[1:]
			}
			return changes, err
		}
	}},
	{name: "repetition on resume", caught: []string{"FeedAgreesWithTheLog"}, plant: func(b *broken) {
		b.changes = func(b *broken, after kv.Revision, maxBytes int) ([]kv.Change, error) {
			return b.Engine.Changes(context.Background(), max(after-1, 0), maxBytes)
		}
	}},
	{name: "silence about what is below the floor", caught: []string{"WatchResyncBelowTheFloor", "ForgottenChangesAreSaidToBe"}, plant: func(b *broken) {
		b.changes = fromTheFloor
	}},
	{name: "answer before the feed", caught: []string{"FeedComesBeforeTheAnswer"}, plant: func(b *broken) {
		var last *kv.Batch
		b.tell = func(tell func(*kv.Batch), batch *kv.Batch) {
			if last != nil {
				tell(last)
			}
			last = batch
		}
	}},
	{name: "stale read", caught: []string{"GetSeesEveryAnsweredWrite", "AgreesWithAPlainMap"}, plant: readLate},
	{name: "torn read", caught: []string{"ViewsAreNeverTorn", "ViewStandsStill"}, plant: func(b *broken) {
		b.view = func(b *broken, v kv.View) kv.View { return tornView{v, b} }
	}},
	{name: "torn read of several keys", caught: []string{"ReadsOfSeveralKeysAreNeverTorn"}, plant: func(b *broken) { b.oneByOne = true }},
	{name: "early read", caught: []string{"WhatWasReadLasts"}, plant: readEarly},
	{name: "half a batch", caught: []string{"FailureLeavesNothing", "BatchIsOneRevision", "BatchesSurviveWhole"}, plant: oneByOne},
	{name: "half a batch after a kill", caught: []string{"BatchesSurviveWhole"}, lose: func(log []kvstore.Commit) []kvstore.Commit {
		if n := len(log); n > 0 {
			events := log[n-1].Events
			log[n-1].Events = events[:len(events)/2]
		}
		return log
	}},
	{name: "archive that a kill empties", caught: []string{"ArchivedIsFoundInTheArchiveOnly", "ArchiveAgreesWithAMap"}, lose: func(log []kvstore.Commit) []kvstore.Commit {
		for i := range log {
			log[i].Archive = nil
		}
		return log
	}},
	{name: "answer before it is durable", caught: []string{"KillKeepsEverythingAnswered", "KillUnderLoad", "WhatWasToldLasts"}, lose: func(log []kvstore.Commit) []kvstore.Commit {
		return log[:len(log)*9/10]
	}},
	{name: "reused revision", caught: []string{"RevisionsNeverGoBack", "AgreesWithAPlainMap"}, plant: answerOld},
	{name: "token applied twice", caught: []string{"TokenIsAppliedOnce", "TokenWhileTheFirstIsUnderWay", "AgreesWithAPlainMap"}, plant: without(func(_ *broken, txn *kv.Txn) {
		txn.Token, txn.TokenNS = "", ""
	})},
	{name: "token forgotten by a restart", caught: []string{"TokenAfterRestart", "TokenAfterKill", "AgreesWithAPlainMap"}, plant: without(func(b *broken, txn *kv.Txn) {
		if txn.Token != "" {
			txn.Token += fmt.Sprint(b.opened)
		}
	})},
	{name: "token that fits every request", caught: []string{"TokenOfAnotherRequestIsRefused"}, plant: anyBody},
	{name: "fence ignored", caught: []string{"FenceHoldsOffLateHolders", "AgreesWithAPlainMap"}, plant: without(func(_ *broken, txn *kv.Txn) {
		txn.Fences = nil
	})},
	{name: "compare ignored", caught: []string{"CompareAndSwap", "AgreesWithAPlainMap"}, plant: without(func(_ *broken, txn *kv.Txn) {
		txn.If = nil
	})},
	{name: "lost update", caught: []string{"ConcurrentIncrementsAllCount"}, plant: each(incrementByHand)},
	{name: "early expiry", caught: []string{"NoKeyExpiresEarly"}, plant: each(func(_ *broken, op *kv.Op) {
		if op.Kind == kv.OpPut && op.TTL > time.Millisecond {
			op.TTL -= time.Millisecond
		}
	})},
	{name: "time to live that outlasts a put", caught: []string{"PutWithoutTTLClearsIt", "AgreesWithAPlainMap"}, plant: each(keepTTL)},
	{name: "keep-alive without effect", caught: []string{"KeepAliveBeginsAnew"}, plant: func(b *broken) {
		b.alive = func(b *broken, id kv.LeaseID) (kv.Lease, error) {
			l, err := b.Engine.Lease(id)
			l.Left = l.TTL
			return l, err
		}
	}},
	{name: "prefix read across namespaces", caught: []string{"ListStaysInItsNamespace"}, plant: func(b *broken) {
		b.view = func(b *broken, v kv.View) kv.View { return wideView{v, b} }
	}},
	{name: "forgotten version taken for absence", caught: []string{"ForgottenVersionsAreSaidToBe"}, plant: func(b *broken) {
		b.getAt = func(b *broken, ns, key string, rev kv.Revision) (*kv.Entry, error) {
			e, err := b.Engine.GetAt(context.Background(), ns, key, rev)
			if codes.Of(err) == codes.Compacted {
				return nil, nil
			}
			return e, err
		}
	}},
	{name: "miscounted namespace", caught: []string{"NamespacesCount", "AgreesWithAPlainMap"}, plant: func(b *broken) {
		b.spaces = func(list []kv.Namespace) []kv.Namespace {
			for i := range list {
				list[i].Bytes++
			}
			return list
		}
	}},
}
