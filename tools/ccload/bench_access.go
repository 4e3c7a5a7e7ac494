package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	fewRules  = 10
	manyRules = 10_000
	// guardedName is what the token of the benchmark is called.
	guardedName = "bench"
)

// controlled compares reads with access control with those without, and many rules with few.
func (b *bench) controlled() {
	defer func() { b.loop.token = "" }()
	open, few, many := b.guarded(0), b.guarded(fewRules), b.guarded(manyRules)
	for _, what := range []struct {
		name string
		src  func(depth int) source
	}{
		{"GETCONFIG", func(depth int) source { return readTape(newRandom(depth), fileNames(benchFiles), "") }},
		{"KVGET", func(depth int) source { return kvGetTape(newRandom(depth), b.cfg.keys) }},
	} {
		for _, depth := range []int{1, 16} {
			b.notSlower(fmt.Sprintf("%s with %d rules, depth %d, of no access control", what.name, fewRules, depth), few, open, depth, what.src(depth))
		}
		b.notSlower(fmt.Sprintf("%s with %d rules, depth 16, of %d", what.name, manyRules, fewRules), many, few, 16, what.src(16))
	}
}

// asked is a server and connections to it.
type asked struct {
	*served
	conns []*conn
}

// notSlower compares two servers whose answers are the same.
func (b *bench) notSlower(name string, this, that asked, depth int, src source) {
	ours, theirs := b.closed(this.pid, this.conns, depth, src), b.closed(that.pid, that.conns, depth, src)
	b.atLeast(name, must(compare(ours, theirs, b.cfg.pairs)), 0.95, "", "%v of %v", ours, theirs)
}

// guarded starts a server with documents, keys and so many rules, and connects with a token
// that these are about; 0: there is no access control.
func (b *bench) guarded(rules int) asked {
	s := b.prepare(benchFiles)
	b.loop.token = ""
	if rules > 0 {
		// Who has no token gets in, too, to see that it serves.
		s.flags = append(s.flags, "--access-control", "--listen-as", "listen=nobody")
		check(os.Mkdir(filepath.Join(s.conf, "_access"), 0o755))
		check(os.WriteFile(filepath.Join(s.conf, "_access", "bench.json"), ruleText(rules), 0o644))
	}
	b.start(s)
	if rules > 0 {
		b.loop.token = b.makeToken(s, guardedName)
	}
	conns := b.dial(s.addr, benchConns)
	b.checkDocuments(conns[0], fileNames(benchFiles))
	b.loadForGets(conns[0])
	return asked{s, conns}
}

// ruleText is a role with so many rules, of which two allow what is measured and come last. The
// others are about the same token and other things.
func ruleText(rules int) []byte {
	var text strings.Builder
	text.WriteString(`{"rules":[`)
	for i := range rules - 2 {
		verb := "allow"
		if i%3 == 0 {
			verb = "deny"
		}
		fmt.Fprintf(&text, `{"name":"r%d","who":["token:%s*"],"%s":["read","write"],"what":["config:other/%d/*","kv:other%d"]},`, i, guardedName, verb, i, i)
	}
	fmt.Fprintf(&text, `{"name":"files","who":["token:%[1]s"],"allow":["read"],"what":["config:f*"]},{"name":"keys","who":["token:%[1]s"],"allow":["read","write"],"what":["kv:%[2]s"]}]}`, guardedName, kvNamespace)
	return []byte(text.String())
}

// makeToken has the server make a token, as people do.
func (b *bench) makeToken(s *served, name string) string {
	cmd := exec.CommandContext(b.loop.ctx, b.binary, "auth", "token", name, "--addr", s.addr, "--token-file", filepath.Join(s.data, "administrator.token"))
	text, err := cmd.Output()
	if err != nil {
		check(fmt.Errorf("confcenter auth token: %w", err))
	}
	return strings.TrimSpace(string(text))
}
