package main

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// What a tenant sends.
const (
	tenantConns = 4   // connections for reads of documents and of keys, and for writes
	tenantDepth = 512 // requests in flight on each
	tenantKeys  = 64
	tenantMost  = time.Hour // how long one stays that no one ends
)

// tenantReport is what became of a tenant's requests, which it prints at its end.
type tenantReport struct {
	Answered, Refused int64
	Seconds           float64
}

// newTenant is the verb of another user of the server, who takes refusals as answers. The
// benchmark starts it, since a tenant that shares a process with another is no stranger to it.
func newTenant() *cobra.Command {
	var addr, file string
	cmd := &cobra.Command{
		Use:   "tenant",
		Short: "Send as much as the server takes, and more, until ended, and print what became of it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var loads []*load
			err = attempt(func() {
				l := newLoop(cmd.Context(), 0)
				l.token = strings.TrimSpace(string(token))
				for _, requests := range []*tape{benchReads(0), kvGetTape(newRandom(1), tenantKeys), kvPutTape(newRandom(2), tenantKeys)} {
					d := newLoad(l.dial(addr, tenantConns), requests)
					d.ask(tenantDepth, -1)
					loads = append(loads, d)
				}
				l.wait(tenantMost)
			})
			if cmd.Context().Err() == nil {
				return err
			}
			r := tenantReport{Seconds: seconds(now())}
			for _, d := range loads {
				r.Answered, r.Refused = r.Answered+d.tally.done, r.Refused+d.tally.failed
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", "127.0.0.1:4800", "server to load")
	f.StringVar(&file, "token-file", "", "file with the token of the tenant")
	return cmd
}
