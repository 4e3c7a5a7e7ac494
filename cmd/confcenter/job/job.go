// Package job runs a command while a lock is held, as a job of the terminal and the shell that this program
// was started by: it has the foreground, stops and goes on as if the shell had started it itself.
package job

import (
	"context"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"confcenter/codes"
)

// Exit is the exit code of the command that was run, which becomes ours. Nothing
// is printed for it.
type Exit int

func (e Exit) Error() string {
	return "the command ended with exit code " + strconv.Itoa(int(e))
}

// Terms are what a command may run by.
type Terms struct {
	Lost  <-chan struct{} // closed when the lock is lost
	TTL   time.Duration   // of the lock, which is not kept alive while this process is stopped
	Grace time.Duration   // how long the command has to end after SIGTERM
}

// Run runs child until it ends, ctx ends, or the lock is lost.
func Run(ctx context.Context, t Terms, child *exec.Cmd) error {
	child.WaitDelay = t.Grace
	runtime.LockOSThread() // startJob needs a thread that lasts as long as this process
	defer runtime.UnlockOSThread()
	j, err := startJob(child)
	if err != nil {
		return err
	}
	defer j.close()
	gone := codes.Errorf(codes.FenceLost, "the lock was lost; the command was asked to stop")
	for {
		select {
		case err := <-j.ended:
			return err
		case <-ctx.Done():
			return j.end(t.Grace)
		case <-t.Lost:
			_ = j.end(t.Grace) // the loss is what counts
			return gone
		case sig := <-j.news:
			before := time.Now()
			goOn := j.obey(sig)
			if time.Since(before) >= t.TTL {
				_ = j.end(t.Grace)
				return gone
			}
			if goOn {
				j.resume()
			}
		}
	}
}
