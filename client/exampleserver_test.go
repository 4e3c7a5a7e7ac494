package client

import (
	"encoding/json"
	"fmt"
	"slices"

	"confcenter/internal/jsontext"
	"confcenter/kv/lock"
	"confcenter/kvstore/memory"
	"confcenter/meta"
	"confcenter/protocol"
)

// exampleMtime is the version of every file the examples begin with.
const exampleMtime = 1540000000

// ServeExample runs a server for the examples, which know no more of it than where
// it listens and how it ends. It is a fake that obeys _meta.json, because a program that
// imports this package must not need a real server's libraries; integration/client
// asks the same of a real one.
func ServeExample(files map[string]string) (addr string, stop func()) {
	s := makeFakeServer(panicking{}, nil)
	s.clock = exampleMtime
	s.script = s.obeyMeta
	for _, name := range sortedKeys(files) {
		s.docs[name] = fakeDoc{exampleMtime, string(jsontext.AppendCompact(nil, []byte(files[name])))}
	}
	state := &fakeState{Store: memory.New(memory.Config{HistoryVersions: 10})}
	state.locks = lock.New(state, lock.Config{})
	s.state = state
	s.start("127.0.0.1:0")
	return s.addr, func() {
		s.stop()
		state.locks.Close()
		panicking{}.check(state.Close())
	}
}

// panicking ends an example that cannot go on.
type panicking struct{}

func (panicking) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panicking) FailNow()                          { panic("the example's server failed") }

func (panicking) check(err error) {
	if err != nil {
		panic(err)
	}
}

// obeyMeta is a script that answers what depends on _meta.json and leaves the rest
// to the fake.
func (s *fakeServer) obeyMeta(c *fakeConn, h protocol.Header, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.docs[metaFile].contents
	if text == "" {
		text = `{}`
	}
	m, problems, err := meta.Parse([]byte(text))
	panicking{}.check(err)
	switch h.Command {
	case protocol.Whoami:
		var who struct{ Svrname, Tag string }
		panicking{}.check(json.Unmarshal(body, &who))
		s.mainConf = m.Profile(who.Tag, "127.0.0.1", who.Svrname).MainConf
	case protocol.GetConfig, protocol.BookCfgChange, protocol.SetConfig:
		clear(s.bases)
		for _, name := range m.Names() {
			s.bases[name], _ = m.Bases(name)
		}
	case protocol.GetCfgName:
		problems = slices.Concat(problems, m.Check(func(name string) bool { return s.docs[name].contents != "" }))
		s.problems = nil
		for _, p := range problems {
			s.problems = append(s.problems, protocol.ConfigProblem{Name: p.Name, Text: p.Text})
		}
	}
	return false
}
