package kvverbs

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/settings"
	"confcenter/kv"
	"confcenter/protocol"
)

// writeFlags are the flags of writes.
type writeFlags struct {
	token   string
	fenced  bool
	ifFence []string

	// of writes that leave a value
	ttl     time.Duration
	expires string
	lease   int64
	// of writes to one key
	ifMod int64
	prev  bool

	expect *kv.Compare // of cas, instead of ifMod
}

func (w *writeFlags) define(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&w.token, "token", "", "token of this write: writes with the same token are applied once, however often they are sent")
	f.BoolVar(&w.fenced, "fenced", false, "write only while the lock under which \"kv lock\" runs this is held")
	f.StringArrayVar(&w.ifFence, "if-fence", nil, "KEY=FENCE: write only while the lock KEY of the namespace is held with that fence; may be repeated")
	verb.FreeText(command, "token", "if-fence")
}

func (w *writeFlags) defineTime(command *cobra.Command) {
	f := command.Flags()
	f.DurationVar(&w.ttl, "ttl", 0, "time after which the key expires (default: never)")
	f.StringVar(&w.expires, "expires", "", "time at which the key expires, as 2006-01-02T15:04:05Z or in ms since 1970; without a zone it is UTC")
	f.Int64Var(&w.lease, "lease", 0, "lease that the key ends with")
	command.MarkFlagsMutuallyExclusive("ttl", "expires")
}

func (w *writeFlags) defineKey(command *cobra.Command) {
	command.Flags().Int64Var(&w.ifMod, "if-mod", 0, "write only if this is the key's revision; 0 means that the key is absent (default: write in any case)")
	command.Flags().BoolVar(&w.prev, "prev", false, "with -o json, also print the previous entry")
}

// txn makes a transaction of op and the flags.
func (w *writeFlags) txn(command *cobra.Command, a *verb.App, op kv.Op) (*kv.Txn, error) {
	op.TTL, op.Lease, op.WantPrev = w.ttl, kv.LeaseID(w.lease), w.prev
	if w.ttl == 0 && command.Flags().Changed("ttl") {
		return nil, verb.Usagef("ttl = 0: must be above 0; leave it out for a key that never expires")
	}
	var err error
	if op.Expires, err = expiry(a, w.expires); err != nil {
		return nil, err
	}
	t := &kv.Txn{Then: []kv.Op{op}}
	switch {
	case w.expect != nil:
		t = protocol.GuardedTxn(*w.expect, op)
	case command.Flags().Changed("if-mod"):
		t = protocol.GuardedTxn(kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: w.ifMod}, op)
	}
	t.Token, t.TokenNS = w.token, op.NS
	t.Fences, err = w.fences(a, op.NS)
	return t, err
}

// LockVariables are those that kv lock sets for the command it runs, and that --fenced reads: namespace, key and
// fence of the lock.
var LockVariables = []string{"CONFCENTER_LOCK_NS", "CONFCENTER_LOCK_KEY", "CONFCENTER_LOCK_FENCE"}

func (w *writeFlags) fences(a *verb.App, ns string) ([]kv.Fence, error) {
	var fences []kv.Fence
	for _, text := range w.ifFence {
		i := strings.LastIndexByte(text, '=')
		fence, err := strconv.ParseInt(text[i+1:], 10, 64)
		if i < 0 || err != nil {
			return nil, verb.Usagef("if-fence = %s: must be KEY=FENCE, where FENCE is a number", text)
		}
		fences = append(fences, kv.Fence{NS: ns, Key: text[:i], Token: kv.Revision(fence)})
	}
	if !w.fenced {
		return fences, nil
	}
	var values [3]string
	for i, variable := range LockVariables {
		var ok bool
		if values[i], ok = settings.Lookup(a.Environ, variable); !ok {
			return nil, verb.Usagef("fenced: %s is not set; use it in a command that \"confcenter kv lock\" runs", variable)
		}
	}
	fence, err := strconv.ParseInt(values[2], 10, 64)
	if err != nil {
		return nil, verb.Usagef("%s = %s: must be a number", LockVariables[2], values[2])
	}
	return append(fences, kv.Fence{NS: values[0], Key: values[1], Token: kv.Revision(fence)}), nil
}

// expiry reads when a key expires; empty: never.
func expiry(a *verb.App, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, nil
	}
	at, err := a.ReadTime("expires", text)
	if err != nil {
		return 0, verb.Usagef("%w, or ms since 1970", err)
	}
	return at.UnixMilli(), nil
}

// apply applies a transaction of one operation.
func apply(ctx context.Context, connected *client.Client, t *kv.Txn) (*kv.Result, error) {
	res, err := connected.Txn(ctx, t)
	if err != nil || res.Held {
		return res, err
	}
	if e := res.Ops[0].Entry; e != nil {
		return nil, codes.Errorf(codes.Conflict, "%s of %s is not as expected: its revision is %d and its value %s", e.Key, e.NS, e.Mod, Brief(e.Value))
	}
	return nil, codes.Errorf(codes.Conflict, "%s of %s is not as expected: it is absent", t.Then[0].Key, t.Then[0].NS)
}

// written prints the result of a write; text is as for commit.
func written(c *verb.Connection, t *kv.Txn, res *kv.Result, text func(*kv.OpResult) any) error {
	did := &res.Ops[0]
	out := resultJSON(&t.Then[0], did)
	delete(out, "op")
	out["revision"] = res.Revision
	if text == nil {
		return c.ShowLine(out, fmt.Sprint("revision ", res.Revision))
	}
	return c.ShowLine(out, text(did))
}

// countOf is the number of keys that a deletion has removed.
func countOf(did *kv.OpResult) any { return did.Count }

// commit applies op and prints the result; text returns what is printed as text, nil
// prints the revision.
func commit(c *verb.Connection, command *cobra.Command, flags *writeFlags, op kv.Op, text func(*kv.OpResult) any) error {
	t, err := flags.txn(command, c.App, op)
	if err != nil {
		return err
	}
	return c.Do(command, func(ctx context.Context, connected *client.Client) error {
		return carryOut(ctx, c, connected, t, text)
	})
}

// apply applies a transaction of one operation and prints the result as commit does.
func carryOut(ctx context.Context, c *verb.Connection, connected *client.Client, t *kv.Txn, text func(*kv.OpResult) any) error {
	res, err := apply(ctx, connected, t)
	if err != nil {
		return err
	}
	return written(c, t, res, text)
}

func putCommand(a *verb.App) *cobra.Command {
	var flags writeFlags
	var value valueFlags
	var secret bool
	command := &cobra.Command{
		Use:   "put NS KEY VALUE | put NS KEY --secret",
		Short: "Write a value",
		Long: `Put writes VALUE under KEY and prints the revision once it is on the server's disk.
VALUE is taken literally; "@FILE" is the contents of a file, "-" standard input.
Without --ttl, --expires or --lease the key never expires, even if it had a time
to live before. With --secret VALUE comes from standard input or a prompt, without the line
break at its end, and the server seals it, whatever its type: all who do not ask with
--reveal, and may, get a mark.

The exit code is 5 if the key's revision is not --if-mod; then nothing has changed.`,
		Example: `  confcenter kv put jobs owner ann --ttl 30s
  confcenter kv put jobs limit --type int -- -5
  confcenter kv put jobs plan @plan.json --json --if-mod 0
  gzip -c log | confcenter kv put logs today - --type bytes
  pass show db/prod | confcenter kv put shop db-password --secret`,
	}
	c := connect(a, command, 1)
	value.define(command)
	flags.define(command)
	flags.defineTime(command)
	flags.defineKey(command)
	command.Flags().BoolVar(&secret, "secret", false, "the value comes from standard input, or from a prompt, and is sealed")
	command.RunE = func(command *cobra.Command, args []string) (err error) {
		op := kv.Op{Kind: kv.OpPut, NS: args[0], Key: args[1], Seal: secret}
		switch {
		case secret && len(args) != 2:
			return verb.Usagef("--secret needs NS and KEY, and takes the value from standard input")
		case secret:
			var text string
			text, err = a.ReadSecret(args[0] + " " + args[1])
			op.Value = kv.Value{Type: value.valueType(), Data: []byte(text)}
		case len(args) != 3:
			return verb.Usagef("VALUE is missing")
		default:
			op.Value, err = value.read(a, args[2])
		}
		if err != nil {
			return err
		}
		return commit(c, command, &flags, op, nil)
	}
	return command
}

func casCommand(a *verb.App) *cobra.Command {
	var flags writeFlags
	var value valueFlags
	var absent bool
	command := &cobra.Command{
		Use:   "cas NS KEY OLD NEW | cas NS KEY NEW --absent",
		Short: "Write a value if the key has the expected one",
		Long: `Cas writes NEW if the value of KEY is exactly OLD, in type and text, or with --absent
if there is no such key. It prints the revision. As with put, the key never expires
unless --ttl, --expires or --lease is given, whatever OLD had. If the key differs,
the exit code is 5 and standard error says what it holds.`,
		Example: `  confcenter kv cas jobs state idle running
  confcenter kv cas jobs leader "$HOSTNAME" --absent --ttl 30s`,
	}
	c := connect(a, command, 1)
	value.define(command)
	flags.define(command)
	flags.defineTime(command)
	command.Flags().BoolVar(&absent, "absent", false, "require that the key is absent, instead of OLD")
	command.RunE = func(command *cobra.Command, args []string) error {
		if absent != (len(args) == 3) {
			return verb.Usagef("give OLD and NEW, or NEW and --absent")
		}
		expect := kv.Absent("", "")
		if !absent {
			old, err := value.read(a, args[2])
			if err != nil {
				return err
			}
			expect = kv.Compare{Target: kv.CompareValue, Relation: kv.Equal, Value: old}
		}
		flags.expect = &expect
		v, err := value.read(a, args[len(args)-1])
		if err != nil {
			return err
		}
		return commit(c, command, &flags, kv.Op{Kind: kv.OpPut, NS: args[0], Key: args[1], Value: v}, nil)
	}
	return command
}

// texts are those of verbs of which there is more to say than the row of their operation does.
var texts = map[kv.OpKind]struct{ short, long, example string }{
	kv.OpIncr: {"Add to an int", `Incr adds --by to the int under KEY and prints the sum. The key keeps its time to
live unless one is given. The exit code is 5 if the value has another type, or if
the sum would exceed 64 bits, --min or --max; then nothing has changed.`, `  confcenter kv incr jobs done
  confcenter kv incr shop stock --by -1 --min 0
  confcenter kv incr jobs next-id --initial 1000`},
}

// opCommand is the verb of an operation that follows from its row.
func opCommand(a *verb.App, kind kv.OpKind) *cobra.Command {
	var flags writeFlags
	var value valueFlags
	var by, initial, least, most int64
	text, doc := texts[kind], strings.ToUpper(kind.Doc()[:1])+kind.Doc()[1:]
	command := &cobra.Command{Use: kind.String() + " NS KEY", Short: cmp.Or(text.short, doc), Long: cmp.Or(text.long, doc+".")}
	if kind.Has(kv.MemberValue) {
		command.Use += " VALUE"
		value.define(command)
	}
	command.Example = cmp.Or(text.example, "  confcenter kv "+command.Use)
	c, f := connect(a, command, 1), command.Flags()
	if kind.Has(kv.MemberBy) {
		f.Int64Var(&by, "by", 1, "amount to add; may be negative")
		f.Int64Var(&initial, "initial", 0, "value to start from if the key is absent")
		f.Int64Var(&least, "min", 0, "smallest sum allowed (default: none)")
		f.Int64Var(&most, "max", 0, "largest sum allowed (default: none)")
	}
	flags.define(command)
	show := countOf
	if kind.Sets() {
		flags.defineTime(command)
		show = func(did *kv.OpResult) any { return string(did.Entry.Value.Data) }
	}
	flags.defineKey(command)
	command.RunE = func(command *cobra.Command, args []string) (err error) {
		op := kv.Op{Kind: kind, NS: args[0], Key: args[1], Delta: by, Initial: initial}
		if f.Changed("min") {
			op.Min = &least
		}
		if f.Changed("max") {
			op.Max = &most
		}
		if kind.Has(kv.MemberValue) {
			if op.Value, err = value.read(a, args[2]); err != nil {
				return err
			}
		}
		return commit(c, command, &flags, op, show)
	}
	return command
}

func restoreCommand(a *verb.App) *cobra.Command {
	var flags writeFlags
	var rev int64
	command := &cobra.Command{
		Use:   "restore NS KEY --rev REVISION",
		Short: "Restore the value that a key had at a revision",
		Long: `Restore writes the value that KEY had at --rev as a new version and prints the new
revision. History lists the revisions. The exit code is 3 if the key was absent at
--rev, and 5 if that is no longer known.`,
		Example: `  confcenter kv history jobs plan
  confcenter kv restore jobs plan --rev 41`,
	}
	c := connect(a, command, 1)
	command.Flags().Int64Var(&rev, "rev", 0, "revision at which the key had the value")
	_ = command.MarkFlagRequired("rev")
	flags.define(command)
	flags.defineTime(command)
	flags.defineKey(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		t, err := flags.txn(command, a, kv.Op{Kind: kv.OpPut, NS: args[0], Key: args[1]})
		if err != nil {
			return err
		}
		if rev < 1 {
			return verb.Usagef("rev = %d: must be a revision", rev)
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			past, err := connected.KV(args[0]).GetAt(ctx, args[1], kv.Revision(rev))
			if err != nil {
				return err
			}
			t.Then[0].Value = past.Value
			return carryOut(ctx, c, connected, t, nil)
		})
	}
	return command
}
