package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// settings keep what a repository configures from running anything.
var settings = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.pager=cat", "core.sshCommand=false", "core.gitProxy=false",
	"core.alternateRefsCommand=", "log.showSignature=false", "log.showRoot=true", "log.follow=false", "maintenance.auto=false", "gc.auto=0",
}

// command is git, on the repository, with an environment in which nothing of the machine's or of the
// user's counts, so that it does nothing but read.
func (r *Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	list := []string{"--no-pager", "--literal-pathspecs"}
	for _, setting := range settings {
		list = append(list, "-c", setting)
	}
	search := cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin")
	c := exec.CommandContext(ctx, program(search), append(list, args...)...)
	c.Dir = r.Work
	c.Env = []string{
		"PATH=" + search, "LC_ALL=C", "GIT_DIR=" + r.Dir, "GIT_WORK_TREE=" + r.Work,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=" + os.DevNull, "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=",
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat",
	}
	endTogether(c)
	c.WaitDelay = time.Second
	c.Stderr = &limited{left: 1000}
	return c
}

// program is git, by an absolute path; "git" if there is none.
func program(search string) string {
	for _, dir := range filepath.SplitList(search) {
		if path := filepath.Join(dir, "git"); filepath.IsAbs(path) {
			if _, err := exec.LookPath(path); err == nil {
				return path
			}
		}
	}
	return "git"
}

// failed is why a command has, with what it said.
func failed(c *exec.Cmd, err error) error {
	said, _ := c.Stderr.(*limited)
	if err == nil || said == nil || said.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
}

// Objects answers which objects there are.
type Objects struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Objects begins questions for objects. It must be closed.
func (r *Repository) Objects(ctx context.Context) (*Objects, error) {
	o := &Objects{command: r.command(ctx, "cat-file", "--batch-check=%(objectname) %(objecttype)")}
	var err error
	if o.in, err = o.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := o.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.out = bufio.NewReader(out)
	return o, o.command.Start()
}

// Close ends the questions.
func (o *Objects) Close() error {
	o.in.Close()
	return failed(o.command, o.command.Wait())
}

// Each returns the hashes of objects by their names, as gitrevisions has them; "": there is no such
// object. Names have no line feeds.
func (o *Objects) Each(names ...string) (hashes []string, err error) {
	written := make(chan error, 1)
	go func() { // as git answers before it has read all
		out := bufio.NewWriter(o.in)
		for _, name := range names {
			out.WriteString(name + "\n")
		}
		written <- out.Flush()
	}()
	for range names {
		line, err := o.out.ReadString('\n')
		if err != nil {
			o.command.Cancel() // so that no one goes on writing
			return nil, errors.Join(err, <-written)
		}
		line = strings.TrimSuffix(line, "\n")
		hash, kind, _ := strings.Cut(line, " ")
		if _, err := hex.DecodeString(hash); err != nil || kind != "blob" && kind != "commit" {
			hash = ""
		}
		hashes = append(hashes, hash)
	}
	return hashes, <-written
}

// Blob is the hash of a file's contents, in a repository with hashes of so many characters.
func Blob(contents []byte, length int) string {
	var h hash.Hash = sha1.New()
	if length == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(contents))
	h.Write(contents)
	return hex.EncodeToString(h.Sum(nil))
}

// Commit is a commit.
type Commit struct {
	Hash    string
	Time    time.Time // when it was made
	Author  string    // name and address
	Subject string
}

// maxToken is how long a member of a commit is at most.
const maxToken = 1 << 20

// Log calls fn for each file that a commit has changed the contents of, with the hash of these; "":
// it has removed it. The newest commit comes first, of all that head is made of. Commits that may
// not have changed a file, because their parents are not there, are left out. fn returns false to
// end it. It is called for files besides these paths, too, if they are more than a command line can have.
func (r *Repository) Log(ctx context.Context, head string, paths []string, fn func(c *Commit, path, blob string) bool) error {
	args := []string{
		"log", "-z", "-c", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-relative",
		"--no-color", "--no-decorate", "--no-notes", "--no-mailmap", "--ignore-submodules=all", "-O" + os.DevNull, "--encoding=UTF-8", "--format=%x01%H%x00%ct%x00%an <%ae>%x00%s", head, "--",
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := r.command(ctx, append(args, pathspecs(paths)...)...)
	pipe, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	in := bufio.NewScanner(pipe)
	in.Buffer(nil, maxToken)
	in.Split(tokens)
	ended := changes(in, r.shallow(), fn)
	if ended {
		cancel()
		_ = c.Wait() // it was told to end
		return nil
	}
	if err := in.Err(); err != nil {
		cancel()
		return errors.Join(err, c.Wait())
	}
	return failed(c, c.Wait())
}

// What paths a command line has at most; beyond, git is asked for the directory that has them.
const (
	mostPaths     = 100
	mostPathBytes = 32 << 10
)

func pathspecs(paths []string) []string {
	size, common := 0, ""
	for i, p := range paths {
		if size += len(p); i == 0 {
			common = path.Dir(p)
		}
		for common != "." && !strings.HasPrefix(p, common+"/") {
			common = path.Dir(common)
		}
	}
	if len(paths) > mostPaths || size > mostPathBytes {
		return []string{common}
	}
	return paths
}

// tokens are texts that end with a zero byte.
func tokens(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// changes reads what git log tells, and reports whether fn has ended it.
func changes(in *bufio.Scanner, left map[string]bool, fn func(c *Commit, path, blob string) bool) (ended bool) {
	next := func() string {
		if !in.Scan() {
			return ""
		}
		return in.Text()
	}
	var c *Commit
	for in.Scan() {
		token := strings.TrimLeft(in.Text(), "\n")
		if hash, is := strings.CutPrefix(token, "\x01"); is {
			var seconds int64
			fmt.Sscan(next(), &seconds)
			c = &Commit{Hash: hash, Time: time.Unix(seconds, 0), Author: next(), Subject: next()}
			continue
		}
		blob, parents, is := result(token)
		if !is || c == nil {
			continue
		}
		path := next()
		if left[c.Hash] || len(parents) == 1 && parents[0] == blob { // nothing but the mode has changed
			continue
		}
		if !fn(c, path, blob) {
			return true
		}
	}
	return false
}

// result reads how a commit has changed a file: ":mode mode hash hash status", with more colons,
// modes and hashes for more parents.
func result(meta string) (blob string, parents []string, ok bool) {
	rest := strings.TrimLeft(meta, ":")
	n := len(meta) - len(rest)
	fields := strings.Fields(rest)
	if n == 0 || len(fields) != 2*n+3 {
		return "", nil, false
	}
	mode, hashes := fields[n], fields[n+1:2*n+2]
	if blob = hashes[n]; !strings.HasPrefix(mode, "100") { // removed, or a link or a submodule now
		blob = ""
	}
	return blob, hashes[:n], true
}

// Reaches reports whether a commit is head, or one that head is made of.
func (r *Repository) Reaches(ctx context.Context, head, commit string) (bool, error) {
	c := r.command(ctx, "merge-base", "--is-ancestor", commit, head)
	err := c.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, failed(c, err)
}

// limited keeps the beginning of what is written.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	some := p[:min(len(p), l.left)]
	l.left -= len(some)
	l.Buffer.Write(some)
	return len(p), nil
}
