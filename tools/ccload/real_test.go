package main

import (
	"context"
	"errors"
	"flag"
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
	"confcenter/access/token"
	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/internal/servertest"
	"confcenter/internal/tlsfiles"
	"confcenter/kvstore/disk"
	"confcenter/player"
	_ "confcenter/player/landing/mysql" // the database that is measured
	"confcenter/server"
	"confcenter/server/http"
	"confcenter/server/tcp"
	"confcenter/server/tcp/gate"
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

// guardReal writes the tokens of the benchmark beside where confcenter writes the administrator's.
func guardReal(place, data string, tokens *token.Tokens) (*control.Config, error) {
	p, err := control.ParsePlace(place, []string{gate.PlainListener})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{neighborName, limitedName} {
		made, err := tokens.Make(context.Background(), &access.Actor{Origin: access.Server}, &token.MakeAsk{Name: name})
		if err == nil {
			err = os.WriteFile(filepath.Join(data, name+".token"), []byte(made.Text+"\n"), 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	return &control.Config{Places: []control.Place{p}}, nil
}

// serveReal is `confcenter serve` as far as the bench needs it.
func serveReal(args []string) (err error) {
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
	state, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: *data + "-state"}})
	if err != nil {
		return err
	}
	s, err := server.Open(server.Config{
		State: state, Documents: confstore.Config{Dir: *conf, DataDir: *data, SetTimeout: time.Minute},
		Players: player.Config{Moved: *moved}, Landing: server.Landing{DSN: *dsn, Elsewhere: !*lands},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fronts := server.Fronts{TCP: tcp.Config{Listen: *listen, TLSListen: *secureListen, MaxConnections: *limit, Loops: 1}}
	if *guarded {
		if fronts.Control, err = guardReal(*place, *data, s.Models.Tokens()); err != nil {
			return err
		}
	}
	if *secureListen != "" {
		if fronts.Certificates, err = tlsfiles.Open(secure, clock.Real(), zerolog.Nop()); err != nil {
			return err
		}
		s.Own(fronts.Certificates.Close)
	}
	if *web != "" {
		fronts.HTTP = &http.Config{Listen: *web, MaxConnections: *streams}
	}
	if err := s.Start(ctx, fronts); err != nil {
		return err
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.Shutdown(end)
}
