package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/protocol"
)

// What a tenant sends.
const (
	// tenantConns is how many connections it has, tenantWeb over HTTP.
	tenantConns, tenantWeb = 8, 32
	// tenantDepth is how many requests are in flight on each, if it waits for nothing but
	// answers.
	tenantDepth = 512
	// tenantValue is the size of its big values, in bytes.
	tenantValue = 64 << 10
	// tenantBigDepth is how many of them are in flight on each connection: more than sockets hold.
	tenantBigDepth = 64
	tenantKeys     = 64
	// tenantBig is the first of the keys that have big values, which nobody reads.
	tenantBig = 90_000_000
)

// tenant is somebody else on the server: it sends requests, and takes refusals as answers.
type tenant struct {
	loop  *loop
	loads []*load
	depth int
	again func() *conn // replaces connections that the server has closed; nil: it must not
}

// newTenant is the verb that the benchmark starts, since a tenant that shares a process with
// another is no stranger to it.
func newTenant() *cobra.Command {
	var addr, web, token string
	var rate float64
	var big bool
	cmd := &cobra.Command{
		Use:   "tenant",
		Short: "Send as much as the server takes, and more, until ended",
		Long: `Ask for documents and keys and write keys as fast as the server answers, whether
it refuses or not, until interrupted, and then print how many requests were
answered, how many of them were refused, and the seconds it took. With --rate no
more than that many requests a second are sent.`,
		Example: `  ccload tenant --addr 127.0.0.1:4800 --token-file tenant.token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLoop(cmd.Context(), 0)
			if err != nil {
				return err
			}
			defer l.close()
			if token != "" {
				text, err := os.ReadFile(token)
				if err != nil {
					return err
				}
				l.token = strings.TrimSpace(string(text))
			}
			t := &tenant{loop: l, depth: tenantDepth}
			return attempt(func() {}, func() {
				switch {
				case web != "":
					t.browse(web)
				case big:
					t.hoard(addr)
				default:
					t.ask(addr)
				}
				fmt.Fprintln(cmd.OutOrStdout(), tenantBegun)
				fmt.Fprintln(cmd.OutOrStdout(), must(t.run(rate)))
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&addr, "addr", "a", "127.0.0.1:4800", "server to load")
	f.StringVar(&web, "http", "", "server to load over HTTP instead")
	f.StringVar(&token, "token-file", "", "file with the token of the tenant")
	f.Float64Var(&rate, "rate", 0, "requests a second (default: as many as are answered)")
	f.BoolVar(&big, "big", false, "write big values only")
	return cmd
}

// add opens n connections that send src.
func (t *tenant) add(addr string, n int, src source) {
	t.loads = append(t.loads, newLoad(t.loop, must(t.loop.identify(addr, n, false)), src))
}

// ask sends what others send, over our protocol.
func (t *tenant) ask(addr string) {
	t.add(addr, tenantConns/2, readTape(newRandom(1), fileNames(benchFiles), ""))
	t.add(addr, tenantConns/4, kvGetTape(newRandom(2), tenantKeys))
	t.add(addr, tenantConns/4, kvPutTape(newRandom(3), tenantKeys))
}

// hoard writes big values.
func (t *tenant) hoard(addr string) {
	t.depth = tenantBigDepth
	t.add(addr, tenantConns, newTape(protocol.KVPut, tenantKeys, func(i int) []byte { return appendKVPut(nil, tenantBig+i, kvText(i, tenantValue)) }))
}

// browse reads one key over HTTP.
func (t *tenant) browse(addr string) {
	src := &tape{}
	src.add(fmt.Appendf(nil, "GET /v1/kv/%s/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", kvNamespace, kvKey(0), addr, t.loop.token))
	t.again = func() *conn {
		c := must(t.loop.dial(addr, ignore{}, false))
		c.framing, c.mayEnd = &httpReplies{size: -1, refusals: true}, true
		return c
	}
	var conns []*conn
	for range tenantWeb {
		conns = append(conns, t.again())
	}
	t.depth = 1
	t.loads = append(t.loads, newLoad(t.loop, conns, src))
}

// tenantReport is what became of a tenant's requests.
type tenantReport struct {
	answered, refused int64
	seconds           float64
}

// What a tenant prints: when it begins, and at its end.
const (
	tenantBegun = "sending"
	tenantLine  = "answered %d refused %d seconds %g"
)

// String is the form that parseTenant reads.
func (r tenantReport) String() string {
	return fmt.Sprintf(tenantLine, r.answered, r.refused, r.seconds)
}

func parseTenant(text string) (r tenantReport, err error) {
	_, last, _ := strings.Cut(text, tenantBegun+"\n")
	_, err = fmt.Sscanf(last, tenantLine, &r.answered, &r.refused, &r.seconds)
	return r, err
}

// run sends until the loop's context ends.
func (t *tenant) run(rate float64) (r tenantReport, err error) {
	begun := t.loop.clock()
	for _, d := range t.loads {
		d.tally = newTally()
		if rate > 0 {
			d.begin(rate / float64(len(t.loads)))
		} else {
			d.fillAll(t.depth, -1)
		}
	}
	t.loop.every(t)
	if err = t.loop.wait(tenantMost); errors.Is(err, context.Canceled) {
		err = nil
	}
	for _, d := range t.loads {
		r.answered += d.tally.done
		r.refused += d.tally.failed
	}
	r.seconds = time.Duration(t.loop.clock() - begun).Seconds()
	return r, err
}

const (
	// tenantMost is how long one stays that nobody ends.
	tenantMost = time.Hour
	// redial is how often a tenant looks for connections that it has lost.
	redial = 10 * time.Millisecond
)

// tick opens connections in place of those that are lost.
func (t *tenant) tick(now int64) int64 {
	for _, d := range t.loads {
		for i, c := range d.conns {
			if c.closed && t.again != nil {
				d.conns[i] = t.again()
				d.conns[i].to = d
				d.fill(d.conns[i], t.depth, now)
			}
		}
	}
	return now + int64(redial)
}
