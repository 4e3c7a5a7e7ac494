package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/confstore"
	"confcenter/gateway"
	"confcenter/internal/clock"
	"confcenter/internal/servertest"
	"confcenter/internal/tlsfiles"
	"confcenter/kvlock"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/server/gate"
	"confcenter/server/tcp"
	"confcenter/state/auth"
	"confcenter/state/host"
	"confcenter/storage"
	"confcenter/storage/landing"
	_ "confcenter/storage/landing/mysql" // the database that is measured
)

// Here the measurements run against a real server, which checks what it is asked.

func realServer(t *testing.T, files int) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{Before: func(dir string) {
		script(t, func() { writeFiles(dir, files) })
	}})
}

func TestLoadsOfARealServer(t *testing.T) {
	conns := dial(t, realServer(t, benchFiles).Addr().String(), 2)
	script(t, func() {
		(&bench{}).checkDocuments(conns[0])
		for _, requests := range []*tape{benchReads(0), pathTape(fileNames(1), []string{partPath}), setTape([]string{"w.json"}, 200)} {
			require.Positive(t, newLoad(conns, requests).closed(4, 50*time.Millisecond).done)
		}
		size := (&bench{benchConfig: benchConfig{part: 1000}}).loadForGets(conns)
		require.InDelta(t, replySize, size, 8)
	})
}

func TestFanoutTellsEachOfARealServerOnce(t *testing.T) {
	s := realServer(t, 1)
	script(t, func() {
		f := newConfigFanout(testLoop(t), s.Addr().String(), 40)
		for range 5 {
			r := f.change()
			require.Positive(t, r.first)
			require.LessOrEqual(t, r.first, r.all)
			require.Positive(t, r.reply)
			require.Equal(t, 40, f.told)
			require.Positive(t, f.perSecond(r))
		}
		require.Len(t, f.rounds(2, 3, 0), 3)
		require.Equal(t, 5+2+3, f.number)
	})
}

// guardReal turns on access control, and writes the tokens of the benchmark beside where confcenter
// writes the administrator's.
func guardReal(place, data string, store *confstore.Store, leases control.Leases, models *host.Host) (*control.Control, error) {
	p, err := control.ParsePlace(place, []string{gate.PlainListener})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{neighborName, limitedName} {
		made, err := models.Tokens().Make(context.Background(), &access.Actor{Origin: access.Server}, &auth.MakeAsk{Name: name})
		if err == nil {
			err = os.WriteFile(filepath.Join(data, name+".token"), []byte(made.Text+"\n"), 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	c := control.Open(control.Config{Roles: store, Tokens: models.Tokens(), Store: models.Store(), Leases: leases, Places: []control.Place{p}, Log: zerolog.Nop()})
	return c, nil
}

// serveReal is `confcenter serve` as far as the bench needs it.
func serveReal(args []string) int {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	listen, conf, data := flags.String("listen", "", ""), flags.String("conf", "", ""), flags.String("data", "", "")
	limit := flags.Int("max-connections", 1000, "")
	for _, ignored := range []string{"log-level", "exempt-networks", "memory"} {
		flags.String(ignored, "", "")
	}
	web, streams := flags.String("http", "", ""), flags.Int("http-max-connections", 1000, "")
	dsn, moved, lands := flags.String("landing", "", ""), flags.Bool("landing-moved", false, ""), flags.Bool("lander", true, "")
	var secure tlsfiles.Paths
	guarded, place := flags.Bool("access-control", false, ""), flags.String("listen-as", "", "")
	secureListen := flags.String("tls-listen", "", "")
	flags.StringVar(&secure.Cert, "tls-cert", "", "")
	flags.StringVar(&secure.Key, "tls-key", "", "")
	_ = flags.Parse(args)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	state, err := pebblekv.Open(pebblekv.Config{Disk: disk.Config{Dir: *data + "-state"}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	store, err := confstore.Open(confstore.Config{Dir: *conf, DataDir: *data, State: state, SetTimeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	locks := kvlock.New(state, kvlock.Config{})
	cfg := storage.Config{Store: state, Moved: *moved}
	var db *landing.Database
	if *dsn != "" {
		if db, err = landing.OpenDatabase(*dsn); err != nil {
			fmt.Println(err)
			return 1
		}
		cfg.Backing = db
	}
	players, err := storage.Open(cfg)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if db != nil && *lands {
		defer landing.Start(landing.Config{Source: landing.Local(players), Database: db, Who: "server"}).Close()
	}
	models := host.Open(state, host.Config{})
	stores := tcp.Stores{Config: store, State: state, Locks: locks, Storage: players, Models: models.Models()}
	serving := tcp.Config{Listen: *listen, MaxConnections: *limit, Loops: 1}
	if *guarded {
		c, err := guardReal(*place, *data, store, state, models)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer c.Close()
		serving.Control = c
	}
	if *secureListen != "" {
		certs, err := tlsfiles.Open(secure, clock.Real(), zerolog.Nop())
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer certs.Close()
		serving.TLSListen, serving.TLS = *secureListen, certs.Config()
	}
	s := tcp.New(serving, stores)
	if err := s.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	var http *gateway.Gateway
	if *web != "" {
		http, err = gateway.New(gateway.Config{Listen: *web, MaxConnections: *streams, Control: serving.Control}, gateway.Stores{Config: store, State: state}, nil)
		if err == nil {
			err = http.Start()
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if http != nil {
		err = http.Shutdown(end)
	}
	if err := errors.Join(err, s.Shutdown(end)); err != nil {
		fmt.Println(err)
		return 1
	}
	models.Close()
	locks.Close()
	if err := errors.Join(players.Close(), state.Close(), store.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
