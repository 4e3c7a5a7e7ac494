package kvverbs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/cmd/confcenter/check"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

func txnCommand(a *verb.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "txn NS [FILE|-]",
		Aliases: []string{"batch"},
		Short:   "Apply several operations as one, on conditions",
		Long: `Txn applies the transaction in FILE or on standard input. It is a JSON object like
the body of KVTXN in PROTOCOL.md: "if" is a list of conditions, "then" and "else"
are lists of operations. If all conditions hold, the operations of "then" are
applied, otherwise those of "else": all or nothing, at one revision. A batch is a
transaction with "then" only. NS is the namespace of parts that name none. As over
HTTP, ttl and expires may also be called ttl_ms and expires_ms: both are in ms.

Txn prints the revision and the result of each operation. The exit code is 5 if
the conditions did not hold and there is no "else".`,
		Example: `  echo '{"then":[{"op":"put","key":"a","value":1},{"op":"delete","key":"b"}]}' |
    confcenter kv txn jobs

  cat > claim.json <<'.'
  {"if":   [{"key": "owner", "target": "version", "op": "=", "number": 0}],
   "then": [{"op": "put", "key": "owner", "value": "ann", "ttl": 30000}, {"op": "incr", "key": "claims"}],
   "else": [{"op": "get", "key": "owner"}]}
  .
  confcenter kv txn jobs claim.json -o json`,
	}
	c := connect(a, command, 0)
	var reveal bool
	verb.DefineReveal(command, &reveal)
	namespace := command.ValidArgsFunction
	command.ValidArgsFunction = func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return nil, cobra.ShellCompDirectiveDefault // FILE
		}
		return namespace(command, args, prefix)
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		file := "-"
		if len(args) > 1 {
			file = args[1]
		}
		t, err := readTxn(a, args[0], file)
		if err != nil {
			return err
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			res, err := committing(connected, reveal)(ctx, t)
			if err != nil {
				return err
			}
			if err := printResult(c, t, res); err != nil {
				return err
			}
			if !res.Held && len(t.Else) == 0 {
				return codes.Errorf(codes.Conflict, "the conditions do not hold; nothing was changed")
			}
			return nil
		})
	}
	return command
}

// committing carries out transactions; reveal has their results revealed.
func committing(connected *client.Client, reveal bool) func(context.Context, *kv.Txn) (*kv.Result, error) {
	if reveal {
		return connected.RevealTxn
	}
	return connected.Txn
}

// readTxn reads a transaction as a server reads KVTXN.
func readTxn(a *verb.App, ns, file string) (*kv.Txn, error) {
	text, name, err := a.ReadInput(file)
	if err != nil {
		return nil, err
	}
	members, kind, end, err := jsontext.ScanPrefix(nil, text)
	if err != nil {
		line, column, reason := check.Position(text, err)
		return nil, codes.Errorf(codes.BadJSON, "%s:%d:%d: %s", name, line, column, reason)
	}
	if kind != jsontext.Object {
		return nil, codes.Errorf(codes.BadJSON, "%s: not a JSON object with \"then\", \"if\" and \"else\"", name)
	}
	var r kvjson.Reader
	var scratch kvjson.Scratch
	t := &kv.Txn{TokenNS: ns}
	r.Begin(kvjson.File, members, &scratch)
	r.Follow(text[end:], end)
	r.Flag(&r.Top, kvjson.Raw) // a member of KVTXN without effect here
	r.Txn(ns, t)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

func printResult(c *verb.Connection, t *kv.Txn, res *kv.Result) error {
	ops := t.Then
	if !res.Held {
		ops = t.Else
	}
	if c.JSON() {
		results := make([]map[string]any, len(res.Ops))
		for i := range res.Ops {
			results[i] = resultJSON(&ops[i], &res.Ops[i])
		}
		return c.PrintJSON(map[string]any{"revision": res.Revision, "held": res.Held, "results": results})
	}
	var out strings.Builder
	fmt.Fprintf(&out, "revision %d, conditions %s\n", res.Revision, map[bool]string{true: "hold", false: "do not hold"}[res.Held])
	for i := range res.Ops {
		fmt.Fprintln(&out, resultText(&ops[i], &res.Ops[i]))
	}
	_, err := io.WriteString(c.Stdout, out.String())
	return err
}

func resultJSON(op *kv.Op, did *kv.OpResult) map[string]any {
	out := map[string]any{"op": op.Kind.String()}
	switch {
	case op.Kind.HasEntry():
		out["entry"] = newEntry(did.Entry)
	case op.Kind == kv.OpGrant:
		out["lease"], out["ttl"] = did.Lease.ID, did.Lease.TTL.Milliseconds()
	default:
		out["deleted"] = did.Count
	}
	if did.More {
		out["more"] = true
	}
	if op.WantPrev {
		out["prev"] = newEntry(did.Prev)
	}
	return out
}

func resultText(op *kv.Op, did *kv.OpResult) string {
	switch {
	case op.Kind.HasEntry() && did.Entry == nil:
		return fmt.Sprintf("%s %s absent", op.Kind, screen.Cell(op.Key))
	case op.Kind.HasEntry():
		return fmt.Sprintf("%s %s %s", op.Kind, screen.Cell(op.Key), cell(did.Entry.Value))
	case op.Kind == kv.OpGrant:
		return fmt.Sprintf("grant %d %s", did.Lease.ID, did.Lease.TTL)
	case op.Kind == kv.OpRevoke:
		return fmt.Sprintf("revoke %d deleted %d", op.Lease, did.Count)
	}
	return fmt.Sprintf("%s %s deleted %d", op.Kind, screen.Cell(op.Key), did.Count)
}
