package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"confcenter/kv"
	"confcenter/protocol"
)

// How landing is measured.
const (
	landingDelay  = time.Second // between batches where there is no backlog
	updatesPerSec = 10_000
	lookAtLanding = 20 * time.Millisecond
	landingLimit  = 5 * time.Minute
)

// landings measures how fast dirty fields get into a MariaDB, which has both cores, as the
// server has.
func (b *bench) landings() {
	n := b.cfg.dirty
	db := b.startMariaDB()
	defer db.Close()
	s := b.backlog(db, n)
	rate := b.landed(s, n)
	rows := db.rows()
	if len(rows) != n {
		check(fmt.Errorf("%d fields were landed, and the database has %d rows", n, len(rows)))
	}
	db.do("CREATE TABLE bench.bare LIKE " + landedTable)
	begun := time.Now()
	db.bareInsert(rows)
	bare := float64(n) / time.Since(begun).Seconds()
	what := fmt.Sprintf("%d fields of %d B landed in MariaDB, ", n, kvValueSize)
	b.atLeast(what+"rows/s", rate, 20_000, "", "server, lander and database on the same cores")
	b.atLeast(what+"of a bare INSERT", rate/bare, 0.7, "", "%.0f/s of %.0f/s, 1000 rows a statement", rate, bare)
	b.drain(s, n)
}

// backlog starts a server that lands in db, with n fields that are not landed yet.
func (b *bench) backlog(db *mariadb, n int) *served {
	s := b.prepare(1, "--landing", db.dsn)
	s.under = b.everywhere()
	check(os.WriteFile(filepath.Join(s.conf, "landing.json"), fmt.Appendf(nil, `{"homo.dirty.landing.delayTime":"%d"}`, landingDelay.Milliseconds()), 0o644))
	b.withoutLander(s, n)
	b.start(s)
	return s
}

// withoutLander changes n fields while nobody lands.
func (b *bench) withoutLander(s *served, n int) {
	flags := s.flags
	s.flags = append(flags[:len(flags):len(flags)], "--lander=false")
	b.start(s)
	conns := b.dial(s.addr, kvConns)
	b.loadFields(conns, n)
	b.end(s)
	s.flags = flags
}

// end stops a server, but not the database beside it.
func (b *bench) end(s *served) {
	b.loop.closeAll(b.loop.conns)
	s.process.stop()
}

// landed waits until everything is landed, and returns the rows a second since before the first
// ones.
func (b *bench) landed(s *served, n int) float64 {
	c := b.dial(s.addr, 1)[0]
	begun := b.beforeLanding(c)
	b.untilLanding(c, func(dirty, _ int) bool { return dirty == 0 })
	return float64(n) / time.Duration(b.loop.clock()-begun).Seconds()
}

// beforeLanding waits until landing has begun, and returns when it last had not.
func (b *bench) beforeLanding(c *conn) (last int64) {
	last = b.loop.clock()
	b.untilLanding(c, func(_, landed int) bool {
		if landed == 0 {
			last = b.loop.clock()
		}
		return landed > 0
	})
	return last
}

// untilLanding looks until stop is content with what is dirty and what was landed.
func (b *bench) untilLanding(c *conn, stop func(dirty, landed int) bool) {
	for begun := time.Now(); ; check(b.loop.wait(lookAtLanding)) {
		dirty, landed := 0, 0
		for _, t := range must(protocol.ParseLandingStatus(must(b.loop.ask(c, protocol.StStatus, []byte("{}"))))) {
			dirty, landed = dirty+int(t.Dirty), landed+int(t.Landed)
		}
		if stop(dirty, landed) {
			return
		}
		if time.Since(begun) > landingLimit {
			check(fmt.Errorf("%d fields are dirty and %d landed after %v", dirty, landed, landingLimit))
		}
	}
}

// drain changes n fields that are landed while nobody lands, and then others while those are
// landed.
func (b *bench) drain(s *served, n int) {
	b.end(s)
	b.withoutLander(s, n)
	b.start(s)
	c := b.dial(s.addr, 1)[0]
	others := newTape(protocol.StUpdate, n, func(i int) []byte { return appendFieldUpdate(nil, n+i, kvText(i, kvValueSize)) })
	updates := newLoad(b.loop, b.dial(s.addr, kvConns), others)
	begun := b.beforeLanding(c)
	updates.begin(updatesPerSec)
	most, left := 0, 0
	b.untilLanding(c, func(dirty, _ int) bool {
		most, left = max(most, dirty), dirty
		return dirty <= updatesPerSec || b.loop.clock()-begun > int64(time.Minute)
	})
	took := time.Duration(b.loop.clock() - begun)
	t := counted(updates.end())
	b.atMost(fmt.Sprintf("%d dirty fields, %d/s updated meanwhile: dirty at most, of the beginning", n, updatesPerSec), float64(most)/float64(n), 1, "",
		"%d left after %.1f s, %.0f updates/s", left, took.Seconds(), t.perSecond())
}

// fieldsPerOwner is how many landed fields the owners have whose number costs memory.
const fieldsPerOwner = 10

// colds measures what fields cost the server that only the database has.
func (b *bench) colds() {
	db := b.startMariaDB()
	defer db.Close()
	s := b.backlog(db, 1)
	b.untilLanding(b.dial(s.addr, 1)[0], func(dirty, _ int) bool { return dirty == 0 })
	b.end(s)
	empty := b.knowing(db).now
	n := b.cfg.landed
	for from := 0; from < n; from += 1_000_000 {
		db.do("INSERT INTO "+landedTable+" (primary_key, logic_type, owner_id, `key`, value, up_version, query_all_key, create_time, update_time) "+
			"SELECT CONCAT('player:o', LPAD(seq DIV ?, 9, '0'), ':f', seq % ?), 'player', CONCAT('o', LPAD(seq DIV ?, 9, '0')), CONCAT('f', seq % ?), "+
			"REPEAT('x', 100), seq + 1, CONCAT('player:o', LPAD(seq DIV ?, 9, '0')), 1, 1 FROM bench.seq_"+fmt.Sprint(from)+"_to_"+fmt.Sprint(min(n, from+1_000_000)-1),
			fieldsPerOwner, fieldsPerOwner, fieldsPerOwner, fieldsPerOwner, fieldsPerOwner)
		b.bar.to(float64(from) / float64(n))
	}
	begun := time.Now()
	with := b.knowing(db)
	b.atMost(fmt.Sprintf("memory for %d landed fields of %d owners", n, (n+fieldsPerOwner-1)/fieldsPerOwner), mebibytes(with.now-empty), 64, "MiB",
		"%.0f MiB without; %.0f MiB at the peak; known after %.1f s", mebibytes(empty), mebibytes(with.peak), time.Since(begun).Seconds())
}

// knowing is what a new server takes that knows which owners the database has.
func (b *bench) knowing(db *mariadb) memory {
	s := b.serve(1, "--landing", db.dsn, "--landing-moved") // as another one has landed there
	c := b.dial(s.addr, 1)[0]
	for begun := time.Now(); ; check(b.loop.wait(lookAtLanding)) {
		known := protocol.AppendKVList(nil, protocol.KVListQuery{List: kv.List{NS: "@landing", Prefix: "known/1_1", CountOnly: true}})
		if must(protocol.ParseKVPage(must(b.loop.ask(c, protocol.KVList, known)), "@landing")).Count > 0 {
			break
		}
		if time.Since(begun) > landingLimit {
			check(fmt.Errorf("the server does not know the owners of the database after %v", landingLimit))
		}
	}
	got := must(memoryOf(s.pid))
	b.end(s)
	return got
}
