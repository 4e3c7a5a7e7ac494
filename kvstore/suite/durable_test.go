package suite

import (
	"fmt"
	"runtime"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var durableChecks = []check{
	{name: "RestartKeepsEverything", run: func(s *subject) { keepsEverything(s, s.restart) }},
	{name: "KillKeepsEverythingAnswered", run: func(s *subject) { keepsEverything(s, s.kill) }},
	{name: "KillUnderLoad", run: killUnderLoad},
	{name: "BatchesSurviveWhole", run: batchesSurviveWhole},
	{name: "RevisionsNeverGoBack", run: revisionsNeverGoBack},
	{name: "WhatWasReadLasts", run: whatWasReadLasts},
	{name: "WhatWasToldLasts", run: whatWasToldLasts},
	{name: "CloseAnswersEverybody", run: closeAnswers},
	{name: "FullDiskRefusesWritesOnly", run: fullDisk},
}

// dump is everything that can be known about a store: the newest revision, the contents, and
// the changes.
func (s *subject) dump() []string {
	s.Helper()
	v := s.Engine.View()
	defer v.Close()
	stats := s.Engine.Stats()
	lines := []string{fmt.Sprintf("revision %d, %d keys, %d bytes, %d leases", v.Revision(), stats.Keys, stats.Bytes, stats.Leases)}
	namespaces, _ := s.Engine.Namespaces("", 0)
	for _, ns := range namespaces {
		lines = append(lines, fmt.Sprintf("namespace %+v", ns))
		page, err := v.List(kv.List{NS: ns.Name})
		require.NoError(s, err)
		for _, e := range page.Entries {
			got, _ := s.Engine.Get([]byte(ns.Name), []byte(e.Key))
			require.Equal(s, e, got)
			lines = append(lines, "entry "+entryText(e))
			versions, err := s.Engine.History(s.Context(), ns.Name, e.Key, 0, 0)
			require.NoError(s, err)
			for _, e := range versions.Entries {
				lines = append(lines, "history "+entryText(e))
			}
		}
	}
	for _, c := range s.changesAfter(0) {
		for _, text := range eventTexts(c.Events) {
			lines = append(lines, fmt.Sprintf("change %d at %d: %s", c.Revision, c.Time, text))
		}
	}
	return lines
}

// entryText is all of an entry; of a deleted one, the parts that every engine provides.
func entryText(e *kv.Entry) string {
	switch {
	case e == nil:
		return "-"
	case e.Deleted():
		return fmt.Sprintf("deleted mod %d updated %d", e.Mod, e.Updated)
	}
	return fmt.Sprintf("%s %s = %s %q create %d mod %d version %d updated %d expires %d lease %d lock %t",
		e.NS, e.Key, e.Value.Type, e.Value.Data, e.Create, e.Mod, e.Version, e.Updated, e.Expires, e.Lease, e.Lock())
}

func keepsEverything(s *subject, again func()) {
	l := newLoad(s, 3)
	for range 3 {
		l.run(60)
		id := s.grant(time.Hour)
		s.then(leased("leased", "1", id), kv.Op{Kind: kv.OpPut, NS: "leased", Key: "2", Value: value(kv.Bytes, "\x00\xff"), TTL: time.Hour, Lease: id})
		s.must(kv.PutTxn("types", "double", value(kv.Double, "-0x1p-3")))
		s.must(kv.PutTxn("types", "json", value(kv.JSON, ` [ 1.50 ] `)))
		s.then(incrOp("types", "n", 1), putOp("types", "empty", ""))
		s.Clock.Advance(1234 * time.Millisecond)
		want := s.dump()
		again()
		require.Equal(s, want, s.dump())
		require.Equal(s, 2, s.lease(id).Keys)
		s.then(kv.Op{Kind: kv.OpRevoke, Lease: id})
		again()
		require.True(s, s.leaseGone(id))
		require.Equal(s, "- -", s.texts("leased", "1", "2"))
	}
}

// killUnderLoad kills while some transactions are answered and some are not. Each writes a key
// of its own and one that all share.
func killUnderLoad(s *subject) {
	for round := range 10 {
		answers := make([]<-chan outcome, 60)
		for i := range answers {
			answers[i] = s.start(&kv.Txn{Then: []kv.Op{putOp("ns", fmt.Sprintf("%d/%d", round, i), fmt.Sprint(i)), putOp("ns", "last", fmt.Sprint(i))}})
		}
		soon(s, answers[round*5], "an answer")
		s.kill()
		newest, lost := -1, false
		for i, answer := range answers {
			there := s.text("ns", fmt.Sprintf("%d/%d", round, i)) == fmt.Sprint(i)
			select {
			case o := <-answer:
				require.False(s, o.err == nil && !there, "write %d was answered and is lost", i)
				require.False(s, o.err != nil && there, "write %d failed and is there", i)
			default:
				require.False(s, i == round*5 && !there, "write %d was answered and is lost", i)
			}
			require.False(s, there && lost, "write %d is there and one before it is not", i)
			lost = lost || !there
			if there {
				newest = i
			}
		}
		require.Equal(s, fmt.Sprint(newest), s.text("ns", "last"), "not more and not less than what is there")
	}
}

// batchesSurviveWhole kills while batches over several namespaces are under way.
func batchesSurviveWhole(s *subject) {
	for round := range 20 {
		var answer <-chan outcome
		for i := range 10 {
			txn := &kv.Txn{}
			for k := range 10 {
				txn.Then = append(txn.Then, putOp(fmt.Sprint("ns", k%3), fmt.Sprint(k), fmt.Sprintf("%d/%d", round, i)))
			}
			answer = s.start(txn)
		}
		if round%2 == 0 {
			soon(s, answer, "a batch")
		}
		s.kill()
		want := s.text("ns0", "0")
		for k := range 10 {
			require.Equal(s, want, s.text(fmt.Sprint("ns", k%3), fmt.Sprint(k)), "half a batch")
		}
		perRevision := map[kv.Revision]int{}
		for _, c := range s.changesAfter(0) {
			perRevision[c.Revision] += len(c.Events)
		}
		for revision, n := range perRevision {
			require.Equal(s, 10, n, "revision %d", revision)
		}
	}
}

func revisionsNeverGoBack(s *subject) {
	seen := map[kv.Revision]string{}
	highest := kv.Revision(0)
	note := func(revision kv.Revision, what string) {
		if before, known := seen[revision]; known {
			require.Equal(s, what, before, "revision %d was used twice", revision)
		}
		seen[revision] = what
		highest = max(highest, revision)
	}
	for round := range 12 {
		feed := s.follow()
		for i := range 5 {
			what := fmt.Sprint(round, " ", i)
			require.GreaterOrEqual(s, s.Engine.Revision(), highest)
			before := highest
			r := s.then(putOp("ns", "key", what))
			require.Greater(s, r.Revision, before, "revisions increase, always")
			note(r.Revision, what)
		}
		s.start(&kv.Txn{Then: []kv.Op{putOp("ns", "key", fmt.Sprint(round, " unanswered"))}})
		if round%3 == 0 {
			s.restart()
		} else {
			s.kill()
		}
		for _, c := range feed.changesAfter(0) {
			note(c.Revision, string(c.Events[0].Entry.Value.Data))
		}
		require.GreaterOrEqual(s, s.Engine.Revision(), highest)
		e := s.get("ns", "key")
		note(e.Mod, string(e.Value.Data))
	}
}

// whatWasReadLasts kills as soon as a write is visible, answered or not: whatever can be read
// must be durable.
func whatWasReadLasts(s *subject) {
	for round := range 30 {
		want := fmt.Sprint(round)
		revision := s.Engine.Revision()
		s.start(&kv.Txn{Then: []kv.Op{putOp("ns", "key", want)}})
		for range 1000 {
			if s.text("ns", "key") == want || s.Engine.Revision() != revision {
				break
			}
			runtime.Gosched()
		}
		seen, told := s.text("ns", "key"), s.Engine.Revision()
		s.kill()
		if seen == want {
			require.Equal(s, want, s.text("ns", "key"), "it was read, and is gone")
		}
		require.GreaterOrEqual(s, s.Engine.Revision(), told)
	}
}

// whatWasToldLasts does the same for the changes that followers receive.
func whatWasToldLasts(s *subject) {
	for round := range 20 {
		feed := s.follow()
		for i := range 20 {
			s.start(&kv.Txn{Then: []kv.Op{putOp("ns", fmt.Sprint(i), fmt.Sprint(round))}})
		}
		before := s.Engine.Revision()
		for range 1000 {
			if len(feed.changesAfter(before)) > 0 {
				break
			}
			runtime.Gosched()
		}
		s.kill()
		for _, c := range feed.changesAfter(0) {
			for _, e := range c.Events {
				require.Equal(s, e.Entry, s.get("ns", e.Entry.Key), "it was told, and is gone")
			}
		}
	}
}

func closeAnswers(s *subject) {
	answers := make([]<-chan outcome, 100)
	for i := range answers {
		answers[i] = s.start(&kv.Txn{Then: []kv.Op{incrOp("ns", "n", 1)}})
	}
	old := s.Engine
	s.restart()
	done := 0
	for _, answer := range answers {
		select {
		case o := <-answer:
			if o.err == nil {
				done++
			}
		default:
			require.FailNow(s, "Close returned before all that was accepted was answered")
		}
	}
	require.Equal(s, len(answers), done, "what Commit accepted is finished")
	require.Equal(s, fmt.Sprint(done), s.text("ns", "n"))
	err := old.Commit(kv.PutTxn("ns", "key", kv.IntValue(1)), func(*kv.Result, error) { panic("must not be called") })
	require.Equal(s, codes.Closed, codes.Of(err))
	_, err = old.KeepAlive(s.Context(), 1)
	require.Equal(s, codes.Closed, codes.Of(err))
	_, err = old.Changes(s.Context(), 0, 1)
	require.Equal(s, codes.Closed, codes.Of(err))
	require.Equal(s, "-", s.text("ns", "key"))
}

func fullDisk(s *subject) {
	if s.SetFull == nil {
		s.Logf("the instance cannot make its disk full")
		return
	}
	s.then(putOp("ns", "a", "1"), putOp("ns", "b", "1"), putOp("p", "c", "1"))
	s.SetFull(true)
	put := func() error {
		_, err := s.commit(&kv.Txn{Then: []kv.Op{putOp("ns", "a", "2")}})
		return err
	}
	onward := func() { s.pass(100 * time.Millisecond) }
	s.until("writes are refused", func() bool { return put() != nil }, onward)
	text := s.text("ns", "a")
	before := s.Engine.Revision()
	for range 5 {
		require.Contains(s, []codes.Code{codes.Storage, codes.Quota}, codes.Of(put()))
	}
	require.Equal(s, before, s.Engine.Revision())
	require.Equal(s, text, s.text("ns", "a"))
	require.Equal(s, text, string(s.then(getOp("ns", "a")).Ops[0].Entry.Value.Data), "reads go on")
	require.Equal(s, int64(1), s.then(deleteOp("ns", "b")).Ops[0].Count, "deletes go on")
	require.Equal(s, int64(1), s.then(dropOp("p")).Ops[0].Count)
	require.Equal(s, "-", s.text("ns", "b"))
	_, err := s.commit(&kv.Txn{System: true, Then: []kv.Op{putOp("@access", "name/a", "1")}})
	require.Contains(s, []codes.Code{codes.Storage, codes.Quota}, codes.Of(err), "what is the server's own is refused, too")
	_, err = s.commit(&kv.Txn{System: true, Lessens: true, Then: []kv.Op{putOp("@access", "name/a", "1")}})
	require.NoError(s, err, "what takes rights away is written to the last byte")
	require.Equal(s, "1", s.text("@access", "name/a"))
	_, err = s.commit(&kv.Txn{Lessens: true, Then: []kv.Op{putOp("ns", "a", "2")}})
	require.Contains(s, []codes.Code{codes.Storage, codes.Quota}, codes.Of(err), "only the server says so")
	s.SetFull(false)
	s.until("writes go on by themselves", func() bool { return put() == nil }, onward)
	require.Equal(s, "2", s.text("ns", "a"))
}
