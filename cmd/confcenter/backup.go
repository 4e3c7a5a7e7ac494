package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/codes"
	"confcenter/kvstore/backup"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"
)

// partial is what the name of a backup ends with that is not complete.
const partial = ".partial"

// backupStall is how long a server may send nothing.
const backupStall = time.Minute

func (a *app) backupCommand() *cobra.Command {
	var from, data string
	proves := &connection{app: a}
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
	f.StringVar(&from, "http", defaultHTTP, "HTTP address of the server, HOST:PORT or a URL; also CONFCENTER_HTTP")
	f.StringVar(&data, "data", "", "data directory of a server that does not run")
	proves.defineProof(f)
	command.MarkFlagsMutuallyExclusive("http", "data")
	_ = command.MarkFlagDirname("data")
	_ = command.RegisterFlagCompletionFunc("http", cobra.NoFileCompletions)
	return a.offline(command, func(ctx context.Context, c *connection, args []string) error {
		if err := a.httpAddress(command); err != nil {
			return err
		}
		server := backupServer{at: from}
		var err error
		if server.secure, server.token, err = proves.proof(command); err != nil {
			return err
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		make := func(to io.Writer) (backup.Totals, error) { return a.fetchBackup(ctx, server, to) }
		if data != "" {
			make = func(to io.Writer) (backup.Totals, error) { return a.copyData(ctx, data, to) }
		}
		return c.backup(make, args[0])
	})
}

// httpAddress takes the address from the environment unless the flag is given.
func (a *app) httpAddress(command *cobra.Command) error {
	set := settingsOf(command.Flags(), func(flag string) bool { return flag == "http" })
	set.Foreign = append(append(set.Foreign, a.serverVariables()...), clientVariables()...)
	set.Foreign = slices.DeleteFunc(set.Foreign, func(variable string) bool { return variable == set.Variable("http") })
	if err := set.Resolve("", "", a.environ); err != nil {
		return usageError{err}
	}
	return nil
}

// backup writes what make makes to a file.
func (c *connection) backup(make func(io.Writer) (backup.Totals, error), name string) error {
	a := c.app
	if name == "-" {
		totals, err := make(a.stdout)
		if err == nil {
			fmt.Fprintf(a.stderr, "confcenter: %s\n", newSummary("standard output", totals))
		}
		return err
	}
	if err := replaceable(name); err != nil {
		return err
	}
	file, err := os.OpenFile(name+partial, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return codes.Errorf(codes.Storage, "the backup cannot be written: %w", err)
	}
	to := &sink{to: file}
	totals, err := make(to)
	if to.err != nil {
		err = codes.Errorf(codes.Storage, "the backup cannot be written: %w", to.err)
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(name+partial, name)
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(name))
	}
	switch {
	case err != nil && totals.Bytes == 0:
		return errors.Join(err, os.Remove(name+partial))
	case err != nil:
		return fmt.Errorf("%w; what there is of it is called %s", err, name+partial)
	}
	done := newSummary(name, totals)
	return c.showLine(done, done)
}

// sink remembers why it could not be written to, which is not the fault of what is read.
type sink struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (s *sink) Write(b []byte) (n int, err error) {
	if n, err = s.to.Write(b); err != nil {
		s.err = err
	}
	return n, err
}

// replaceable refuses to write over anything that is no backup.
func replaceable(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return codes.Errorf(codes.Storage, "%w", err)
	}
	defer file.Close()
	head := bufio.NewReader(file)
	if magic, _ := head.Peek(len(backup.Magic)); string(magic) != backup.Magic {
		what, _, _ := strings.Cut(cmp.Or(compression(head), "is no backup"), ":")
		return codes.Errorf(codes.AlreadyExists, "%s exists and %s: it is not replaced; remove it, or choose another name", name, what)
	}
	return nil
}

func syncDirectory(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
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
	return fmt.Sprintf("%s: revision %d of %s, %d rows, %d bytes, SHA-256 %s", s.File, s.Revision, time.UnixMilli(s.Time).UTC().Format(time.RFC3339), s.Rows, s.Bytes, s.SHA256)
}

// fetchBackup gets a backup from a server, and checks it as it comes.
func (a *app) fetchBackup(ctx context.Context, from backupServer, to io.Writer) (backup.Totals, error) {
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
	p := &progress{to: unescaped(a.stderr), quiet: !isTerminal(a.stderr), moves: func() { stalled.Reset(backupStall) }}
	defer p.end()
	totals, err := backup.Read(io.TeeReader(body, io.MultiWriter(to, p)), noHead, noRow)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return totals, err
}

func noHead(backup.Head) error      { return nil }
func noRow(key, value []byte) error { return nil }

// copyData makes a backup of a data directory that is not in use.
func (a *app) copyData(ctx context.Context, data string, to io.Writer) (totals backup.Totals, err error) {
	taken, err := takeIdle(data)
	if err != nil {
		return totals, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	store, _, err := disk.OpenLog(disk.Config{Dir: stateDir(data), ReadOnly: true}, replica.Loader{})
	if err != nil {
		return totals, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	from, err := store.Copy()
	if err != nil {
		return totals, err
	}
	defer from.Close()
	p := &progress{to: unescaped(a.stderr), quiet: !isTerminal(a.stderr)}
	defer p.end()
	return backup.Write(io.MultiWriter(until{ctx}, to, p), from, version)
}

// until is written to as long as a context has not ended.
type until struct{ context.Context }

// Write implements io.Writer.
func (u until) Write(b []byte) (int, error) { return len(b), context.Cause(u) }

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
		return nil, usageError{err}
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
	switch err := printing.Unmarshal(body, &said); {
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
	if !p.quiet {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
