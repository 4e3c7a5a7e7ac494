package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/datadir"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/kvstore/backup"
)

// backupStall is how long a server may send nothing.
const backupStall = time.Minute

func backupCommand(a *verb.App) *cobra.Command {
	var from, data string
	proves := &verb.Connection{App: a, Shares: map[string]string{"http": "http"}}
	command := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up everything that a server keeps",
		Long: `Backup writes to FILE everything that a server keeps, as it is at one revision: the
state store with all its namespaces, leases and older versions, and the documents
with all their versions. The server goes on meanwhile; the backup comes over HTTP.
With --data it is read from the data directory of a server that does not run.

While it is written the file is called FILE.partial. It gets its name when it is
complete and on disk. A FILE that is a backup is replaced, any other is not. FILE may
be -, which is standard output; what ends too early is told by its missing end.`,
		Example: `  confcenter backup /backups/$(date +%F).backup
  confcenter backup --http 10.0.0.7:8080 all.backup
  confcenter backup --data /var/lib/confcenter all.backup
  confcenter backup - | zstd > all.backup.zst`,
	}
	f := command.Flags()
	f.StringVar(&from, "http", serving.DefaultHTTP, "HTTP address of the server, HOST:PORT or a URL; also CONFCENTER_HTTP")
	f.StringVar(&data, "data", "", "data directory of a server that does not run")
	proves.DefineProof(f)
	command.MarkFlagsMutuallyExclusive("http", "data")
	_ = command.MarkFlagDirname("data")
	verb.FreeText(command, "http")
	return a.Offline(command, func(ctx context.Context, c *verb.Connection, args []string) error {
		secure, token, err := proves.Proof(command)
		if err != nil {
			return err
		}
		server := backupServer{at: from, secure: secure, token: token}
		ctx, stop := verb.UntilSignal(ctx)
		defer stop()
		make := func(to io.Writer) (backup.Totals, error) { return fetchBackup(ctx, a, server, to) }
		if data != "" {
			make = func(to io.Writer) (backup.Totals, error) {
				p := newProgress(a)
				defer p.end()
				return datadir.Copy(ctx, data, io.MultiWriter(to, p), version)
			}
		}
		name := args[0]
		if name == "-" {
			totals, err := make(a.Stdout)
			if err == nil {
				a.Tell("%s", newSummary("standard output", totals))
			}
			return err
		}
		totals, err := datadir.WriteBackup(name, make)
		if err != nil {
			return err
		}
		done := newSummary(name, totals)
		return c.ShowLine(done, done)
	})
}

// summary is what is said of a backup.
type summary struct {
	File     string `json:"file"`
	Revision int64  `json:"revision"`
	Time     int64  `json:"time_ms"`
	Rows     int64  `json:"rows"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Program  string `json:"program"`
}

func newSummary(name string, t backup.Totals) summary {
	return summary{name, int64(t.Head.Revision), t.Head.Time, t.Rows, t.Bytes, t.SHA256, t.Head.Program}
}

func (s summary) String() string {
	return fmt.Sprintf("%s: revision %d of %s, %d rows, %d bytes, SHA-256 %s", s.File, s.Revision, screen.Time(s.Time), s.Rows, s.Bytes, s.SHA256)
}

// fetchBackup gets a backup from a server, and checks it as it comes.
func fetchBackup(ctx context.Context, a *verb.App, from backupServer, to io.Writer) (backup.Totals, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := from.ask(ctx)
	if err != nil {
		return backup.Totals{}, err
	}
	defer body.Close()
	stalled := time.AfterFunc(backupStall, func() {
		cancel(codes.Errorf(codes.Timeout, "the server has sent nothing for %s", backupStall))
	})
	defer stalled.Stop()
	p := newProgress(a)
	p.moves = func() { stalled.Reset(backupStall) }
	defer p.end()
	totals, err := backup.Read(io.TeeReader(body, io.MultiWriter(to, p)), func(backup.Head) error { return nil }, func(key, value []byte) error { return nil })
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return totals, err
}

// backupServer is where a backup comes from.
type backupServer struct {
	at     string // HOST:PORT or a URL
	secure *tls.Config
	token  string // empty: none
}

// ask returns a backup's bytes as the server sends them.
func (s backupServer) ask(ctx context.Context) (io.ReadCloser, error) {
	url := strings.TrimSuffix(s.at, "/") + "/v1/backup"
	switch {
	case strings.Contains(s.at, "://"):
	case s.secure != nil:
		url = "https://" + url
	default:
		url = "http://" + url
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, verb.UsageError{Err: err}
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	dial := &net.Dialer{Timeout: 5 * time.Second}
	client := &http.Client{Transport: &http.Transport{DialContext: dial.DialContext, TLSClientConfig: s.secure, ResponseHeaderTimeout: backupStall, DisableKeepAlives: true}}
	reply, err := client.Do(r)
	if err != nil {
		return nil, codes.Errorf(codes.Unreachable, "%w; backups come over HTTP: name its address with --http", err)
	}
	if reply.StatusCode == http.StatusOK {
		return reply.Body, nil
	}
	defer reply.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(reply.Body, 4<<10))
	return nil, refusal(reply.StatusCode, text)
}

// refusal is an error that a server has answered.
func refusal(status int, body []byte) error {
	var said struct {
		Code   codes.Code
		Detail string
	}
	switch err := verb.Encoding.Unmarshal(body, &said); {
	case status == http.StatusNotFound:
		return codes.Errorf(codes.NotImplemented, "nothing there makes backups: the server is an older version, or it is another one")
	case err != nil || said.Code.Name() == "":
		return codes.Errorf(codes.Internal, "the server has answered with status %d", status)
	}
	return codes.Errorf(said.Code, "the server has refused: %s", said.Detail)
}

// progress says on a terminal how far something is.
type progress struct {
	to    io.Writer
	quiet bool
	moves func() // may be nil
	bytes int64
	said  time.Time
}

// progress says nothing if standard error is no terminal.
func newProgress(a *verb.App) *progress {
	return &progress{to: screen.Raw(a.Stderr), quiet: !screen.IsTerminal(a.Stderr)}
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.bytes += int64(len(b))
	if p.moves != nil {
		p.moves()
	}
	if now := time.Now(); !p.quiet && now.Sub(p.said) > 200*time.Millisecond {
		p.said = now
		fmt.Fprintf(p.to, "\r%d MiB", p.bytes>>20)
	}
	return len(b), nil
}

// end clears the line.
func (p *progress) end() {
	if !p.said.IsZero() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
