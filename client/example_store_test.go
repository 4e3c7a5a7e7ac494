package client_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"confcenter/confstore"
	"confcenter/kvlock"
	"confcenter/kvstore/kvtest"
	"confcenter/server"
)

// exampleStore runs a server with an empty state store, as exampleServer does one
// with files.
func exampleStore() (addr string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	check(os.Mkdir(filepath.Join(dir, "conf"), 0o755))
	config, err := confstore.Open(confstore.Config{Dir: filepath.Join(dir, "conf"), DataDir: filepath.Join(dir, "data")})
	check(err)
	state := kvtest.NewMemory(kvtest.MemoryConfig{})
	locks := kvlock.New(state, kvlock.Config{})
	srv := server.New(server.Config{Listen: "127.0.0.1:0", Loops: 1}, server.Stores{Config: config, State: state, Locks: locks})
	check(srv.Start())
	return srv.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		check(srv.Shutdown(ctx))
		locks.Close()
		check(state.Close())
		check(config.Close())
		check(os.RemoveAll(dir))
	}
}
