package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/protocol"
)

// How landing is measured.
const (
	landingDelay  = time.Second // between batches where there is no backlog
	lookAtLanding = 20 * time.Millisecond
	landingLimit  = 5 * time.Minute
)

// landings measures how fast dirty fields get into a MariaDB, which has both cores, as the
// server has.
func (b *bench) landings() {
	n := b.of(dirtyFields)
	db := b.startMariaDB()
	defer db.Close()
	s := b.backlog(db, n)
	rate := float64(n) / seconds(b.landed(s))
	var rows int
	check(db.QueryRow("SELECT COUNT(*) FROM " + landedTable).Scan(&rows))
	if rows != n {
		check(fmt.Errorf("%d fields were landed, and the database has %d rows", n, rows))
	}
	b.atLeast(fmt.Sprintf("%d fields of %d B landed in MariaDB, rows/s", n, kvValueSize), rate, 20_000, "", "server, lander and database on the same cores")
}

// backlog starts a server that lands in db, with n fields that have changed while no one landed.
func (b *bench) backlog(db *mariadb, n int) *served {
	s := b.prepare(1, "--landing", db.dsn, "--lander=false")
	s.under = b.everywhere()
	check(os.WriteFile(filepath.Join(s.conf, "landing.json"), fmt.Appendf(nil, `{"homo.dirty.landing.delayTime":"%d"}`, landingDelay.Milliseconds()), 0o644))
	b.start(s)
	b.loadFields(b.dial(s.addr, kvConns), n)
	b.end(s)
	s.flags = s.flags[:2]
	b.start(s)
	return s
}

// end stops a server, but not the database beside it.
func (b *bench) end(s *served) {
	b.hangUp()
	s.process.end()
}

// landed waits until everything is landed, and returns how long that took from the first.
func (b *bench) landed(s *served) int64 {
	c, begun := b.dial(s.addr, 1)[0], now()
	b.look(func() bool {
		dirty, landed := 0, 0
		for _, t := range must(protocol.ParseReply[field.Tables](c.ask(protocol.StStatus, []byte("{}")))).Tables {
			dirty, landed = dirty+int(t.Dirty), landed+int(t.Landed)
		}
		if landed == 0 {
			begun = now()
		}
		return dirty == 0
	})
	return now() - begun
}

// look waits until done.
func (b *bench) look(done func() bool) {
	for begun := now(); !done(); b.wait(lookAtLanding) {
		if now()-begun > int64(landingLimit) {
			check(errTimeout)
		}
	}
}

// fieldsPerOwner is how many landed fields the owners have whose number costs memory.
const fieldsPerOwner = 10

// colds measures what fields cost the server that only the database has.
func (b *bench) colds() {
	db := b.startMariaDB()
	defer db.Close()
	s := b.backlog(db, 1)
	b.landed(s)
	b.end(s)
	empty, _ := b.knowing(db)
	n := b.of(coldFields)
	db.do("INSERT INTO "+landedTable+" (primary_key, logic_type, owner_id, `key`, value, up_version, query_all_key, create_time, update_time) "+
		"SELECT CONCAT('player:o', LPAD(seq DIV ?, 9, '0'), ':f', seq % ?), 'player', CONCAT('o', LPAD(seq DIV ?, 9, '0')), "+
		"CONCAT('f', seq % ?), REPEAT('x', 100), seq + 1, CONCAT('player:o', LPAD(seq DIV ?, 9, '0')), 1, 1 FROM bench.seq_0_to_"+fmt.Sprint(n-1),
		fieldsPerOwner, fieldsPerOwner, fieldsPerOwner, fieldsPerOwner, fieldsPerOwner)
	begun := time.Now()
	with, peak := b.knowing(db)
	b.atMost(fmt.Sprintf("memory for %d landed fields of %d owners", n, (n+fieldsPerOwner-1)/fieldsPerOwner), mebibytes(with-empty), 64, "MiB",
		"%.0f MiB without; %.0f MiB at the peak; known after %.1f s", mebibytes(empty), mebibytes(peak), time.Since(begun).Seconds())
}

// knowing is the memory, and its peak, of a new server that knows which owners the database has.
func (b *bench) knowing(db *mariadb) (now, peak int64) {
	s := b.serve(1, "--landing", db.dsn, "--landing-moved") // as another one has landed there
	c := b.dial(s.addr, 1)[0]
	known := protocol.AppendMessage(nil, &protocol.KVListQuery{List: kv.List{NS: "@landing", Prefix: "known/1_1", CountOnly: true}})
	b.look(func() bool { return must(protocol.ParseKVPage(c.ask(protocol.KVList, known), "@landing")).Count > 0 })
	defer b.end(s)
	return s.memory()
}
