package client_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"confcenter/confstore"
	"confcenter/kvlock"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/server"
)

// exampleServer runs a server on a directory with these files. The examples talk
// to it as they would to any other; where it listens and how it ends is all they
// know.
func exampleServer(files map[string]string) (addr string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	conf := filepath.Join(dir, "conf")
	check(os.Mkdir(conf, 0o755))
	for name, text := range files {
		path := filepath.Join(conf, name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, []byte(text), 0o644))
		// So that the examples know the versions.
		check(os.Chtimes(path, time.Unix(1540000000, 0), time.Unix(1540000000, 0)))
	}
	store, err := confstore.Open(confstore.Config{Dir: conf, DataDir: filepath.Join(dir, "data")})
	check(err)
	state, err := pebblekv.Open(pebblekv.Config{Disk: disk.Config{Dir: filepath.Join(dir, "state"), ReserveBytes: 1}})
	check(err)
	locks := kvlock.New(state, kvlock.Config{})
	srv := server.New(server.Config{Listen: "127.0.0.1:0", Loops: 1}, server.Stores{Config: store, State: state, Locks: locks})
	check(srv.Start())
	return srv.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		check(srv.Shutdown(ctx))
		locks.Close()
		check(state.Close())
		check(store.Close())
		check(os.RemoveAll(dir))
	}
}

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
