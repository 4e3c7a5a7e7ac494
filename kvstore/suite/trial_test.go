package suite

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// trial is the testing.TB of a check that is expected to fail: it keeps what is
// said and does not fail the test around it.
type trial struct {
	testing.TB

	mu sync.Mutex

	// guarded by mu
	failed bool
	said   []string
}

func (t *trial) fail(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	t.said = append(t.said, text)
}

func (t *trial) Helper()                           {}
func (t *trial) Log(...any)                        {}
func (t *trial) Logf(string, ...any)               {}
func (t *trial) Error(args ...any)                 { t.fail(fmt.Sprint(args...)) }
func (t *trial) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }
func (t *trial) Fail()                             { t.fail("Fail") }
func (t *trial) FailNow()                          { t.fail("FailNow"); runtime.Goexit() }
func (t *trial) Fatal(args ...any)                 { t.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (t *trial) Fatalf(format string, args ...any) {
	t.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// try runs one check on engines of open and reports whether it failed, and why.
func try(t *testing.T, name string, open opener, patience time.Duration) (failed bool, why string) {
	t.Helper()
	for i := range checks {
		if checks[i].name != name {
			continue
		}
		r := &trial{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() {
				if p := recover(); p != nil { // go test would call it a failure, too
					r.fail(fmt.Sprint("panic: ", p))
				}
			}()
			checks[i].on(r, open, patience)
		}()
		<-ended
		return r.Failed(), strings.Join(r.said, "\n")
	}
	require.FailNow(t, "there is no check "+name)
	return false, ""
}

// quickly has rapid be content with the first failure it finds.
func quickly(t *testing.T) {
	for name, text := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		before := flag.Lookup(name).Value.String()
		require.NoError(t, flag.Set(name, text))
		t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
	}
}
