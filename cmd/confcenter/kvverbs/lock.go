package kvverbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/job"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/kv"
)

// commandGrace is how long a command has to end after SIGTERM.
const commandGrace = 10 * time.Second

const lockHelp = `Lock waits its turn for the lock KEY, runs COMMAND while holding it, and releases it.
The exit code is the command's, or 128 plus the number of the signal that ended it.
If the command was not run because the lock is held and --no-wait or --wait ended
the wait, the exit code is 5; other errors have their usual codes.

On Linux COMMAND runs in a process group of its own, which has the foreground of the
terminal while this process would have it: Ctrl-C reaches COMMAND. In a pipeline it
gets the foreground when it reads from the terminal. On SIGTERM, SIGINT, SIGHUP or
SIGQUIT to this process the group gets SIGTERM, what is left of it SIGKILL 10 s later,
and then the lock is released. If the lock is lost while COMMAND runs, for example
because the connection is down for too long, it ends the same way, and the exit code
is 5. When COMMAND ends by itself, the lock is released at once: processes that it
leaves behind go on without the lock.

Ctrl-Z stops COMMAND and this process, which then does not keep the lock: it lapses
after --ttl, and the next in line gets it, while COMMAND stands still. fg and bg let
COMMAND go on if the lock is still held, and end it otherwise.

After a SIGKILL of this process only COMMAND itself gets SIGTERM, not its children,
and the next in line gets the lock after --ttl. On other systems than Linux COMMAND
stays in the group of this process, only COMMAND itself is ended, and it goes on if
this process dies.

A command may notice late that the lock is lost, so make writes that must not come
late with --fenced, or pass on the fence:

  CONFCENTER_LOCK_NS, CONFCENTER_LOCK_KEY   the lock
  CONFCENTER_LOCK_FENCE                     its fencing token, which rises with every holder`

func lockCommand(a *verb.App) *cobra.Command {
	var ttl, wait time.Duration
	var noWait bool
	var holder string
	command := &cobra.Command{
		Use:   "lock NS KEY -- COMMAND [ARGUMENT…]",
		Short: "Run a command while holding a lock",
		Long:  lockHelp,
		Example: `  confcenter kv lock jobs nightly -- ./nightly.sh
  confcenter kv lock jobs nightly --no-wait -- sh -c 'confcenter kv put jobs last-run "$(date)" --fenced'`,
		Args: func(command *cobra.Command, args []string) error {
			if dash := command.ArgsLenAtDash(); dash != 2 || len(args) < 3 {
				return errors.New("give NS and KEY, then --, then the command to run")
			}
			return nil
		},
	}
	c := connect(a, command, 1)
	f := command.Flags()
	f.DurationVar(&ttl, "ttl", 15*time.Second, "how long the lock stays taken if this process dies")
	f.DurationVar(&wait, "wait", 0, "longest wait for the lock; 0 = as long as it takes")
	f.BoolVar(&noWait, "no-wait", false, "do not wait if another client holds the lock")
	f.StringVar(&holder, "holder", "", "name of the holder, shown in the lock's key (default: this host and process)")
	command.MarkFlagsMutuallyExclusive("wait", "no-wait")
	command.RunE = func(command *cobra.Command, args []string) error {
		path, err := exec.LookPath(args[2])
		if err != nil {
			return err
		}
		if wait < 0 {
			return verb.Usagef("wait = %s: must not be negative", wait)
		}
		c.Name = cmp.Or(holder, verb.HostAndProcess())
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			ctx, stop := alsoUntil(ctx, syscall.SIGHUP, syscall.SIGQUIT)
			defer stop()
			s := connected.KV(args[0])
			lock, err := takeLock(ctx, s, args[1], ttl, wait, noWait)
			if err != nil {
				return err
			}
			child := exec.Command(path, args[3:]...)
			child.Args[0] = args[2]
			child.Env = append(a.Environ, LockVariables[0]+"="+args[0], LockVariables[1]+"="+args[1],
				fmt.Sprintf("%s=%d", LockVariables[2], lock.Fence()))
			child.Stdin, child.Stdout, child.Stderr = a.Stdin, screen.Raw(a.Stdout), screen.Raw(a.Stderr)
			err = job.Run(ctx, job.Terms{Lost: lock.Lost(), TTL: ttl, Grace: commandGrace}, child)
			// The lock must be released even if ctx has ended.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Timeout)
			defer cancel()
			if end := lock.Unlock(ctx); err == nil && end != nil && !errors.Is(end, codes.FenceLost) {
				err = end
			}
			return err
		})
	}
	return command
}

// alsoUntil is a context that ends with signals as well, but for those that this process was started
// to ignore, as by nohup.
func alsoUntil(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	signals = slices.DeleteFunc(signals, signal.Ignored)
	if len(signals) == 0 {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, signals...)
}

func takeLock(ctx context.Context, s *client.KV, key string, ttl, wait time.Duration, noWait bool) (*client.Lock, error) {
	if noWait {
		return s.TryLock(ctx, key, ttl)
	}
	waiting := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	lock, err := s.Lock(waiting, key, ttl)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		err = codes.Errorf(codes.Locked, "lock %s of %s was not free within %s%s", key, s.Namespace(), wait, holderOf(ctx, s, key))
	}
	return lock, err
}

// holderOf says who holds a lock, for the end of a text; "" if that is not known.
func holderOf(ctx context.Context, s *client.KV, key string) string {
	e, err := s.Get(ctx, key)
	if err != nil || e.Value.Type != kv.String {
		return ""
	}
	return fmt.Sprintf(": held by %q since revision %d", e.Value.Data, e.Create)
}
