package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"confcenter/kv"
	"confcenter/protocol"
)

const (
	kvPagePath  = "docs/reference/kv.md"
	kvCallsPath = "client/kvcalls.go"
)

// kvCalls writes the methods of the Go client for operations that change a key, but for those by hand, which do more.
func kvCalls(byHand []byte) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// %s\n\npackage client\n\nimport (\n\"context\"\n\n\"confcenter/kv\"\n)\n", mark)
	for _, kind := range kv.OpKinds() {
		if !kind.Has(kv.MemberKey) || kind == kv.OpGet {
			continue
		}
		name, parameters, fields := goName(kind.String()), "key string", "Key: key"
		if kind.Has(kv.MemberValue) {
			parameters, fields = parameters+", v kv.Value", fields+", Value: v"
		}
		if kind.Has(kv.MemberBy) {
			parameters, fields = parameters+", by int64", fields+", Delta: by"
		}
		add := func(receiver, format string) {
			if head := "func " + receiver + " " + name + "("; !bytes.Contains(byHand, []byte(head)) {
				fmt.Fprintf(&out, "\n%s\n%s"+format, comment(name, kind.Doc()), head, parameters, "kv.Op{Kind: kv.Op"+name+", "+fields+"}")
			}
		}
		add("(s *KV)", "ctx context.Context, %s, opts ...Option) (Written, error) {\nreturn s.write(ctx, %s, nil, opts)\n}\n")
		add("(t *Txn)", "%s, opts ...Option) *Txn {\nreturn t.add(%s, opts)\n}\n")
	}
	return format.Source(out.Bytes())
}

// kvMembers are the members of operations as the reference names them, in the order of a request.
var kvMembers = []struct {
	has        kv.Members
	names, doc string
}{
	{kv.MemberKey, "`ns`, `key`", "**required**"},
	{kv.MemberPrefix, "`ns`, `prefix`, `confirm`, `limit`", ""},
	{kv.MemberValue, "`type`, `value`, `raw`", "a value, as in KVPUT"},
	{kv.MemberSeal, "`seal`", "as in KVPUT"},
	{kv.MemberBy, "`by`, `initial`, `min`, `max`", "as in KVINCR"},
	{kv.MemberEnds, "`ttl`, `expires`, `lease`", "when the key ends; absent: as before"},
	{kv.MemberPrev, "`prev`", "a flag: the reply has the entry before"},
	{kv.MemberTTL, "`ttl`", ""},
	{kv.MemberLease, "`lease`", ""},
}

// kvPage is the page of the operations of the state store: what KVTXN takes, and the commands that follow from
// their rows, unless PROTOCOL.md has a section of its own for them.
func kvPage(specification []byte) []byte {
	var out, sections bytes.Buffer
	out.WriteString("<!-- written by go generate ./internal/generate/operations -->\n\n# Operations of the state store\n\n")
	out.WriteString("They stand in `then` and `else` of [KVTXN](../../PROTOCOL.md#kvtxn-0x0108), and most are a command, too.\n")
	out.WriteString("\n| `op` | what it does | members | result |\n|---|---|---|---|\n")
	for _, kind := range kv.OpKinds() {
		var list []string
		var table strings.Builder
		for _, m := range kvMembers {
			if kind.Has(m.has) {
				list = append(list, m.names)
				fmt.Fprintf(&table, "| %s | %s |\n", m.names, m.doc)
			}
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", kind, kind.Doc(), strings.Join(list, ", "), kvResult(kind))
		for _, row := range protocol.Commands {
			title := fmt.Sprintf("## %s 0x%04X\n", row.Name, uint16(row.ID))
			if row.Op != kind || !kind.Follows() || bytes.Contains(specification, []byte(title)) {
				continue
			}
			usage, doc := "NS KEY", kind.Doc()
			if kind.Has(kv.MemberValue) {
				usage += " VALUE"
			}
			fmt.Fprintf(&sections, "\n%s\n%s%s.\n\n| request | |\n|---|---|\n%s| `token`, `if_fence`, `reveal` | as in all writes |\n", title, strings.ToUpper(doc[:1]), doc[1:], &table)
			fmt.Fprintf(&sections, "\nReply: `code`, `rev`, %s; `replayed`.\n\nElsewhere it is `POST /v1/store/%s`, `confcenter kv %[2]s %[3]s`, and in Go `KV.%[4]s` and `Txn.%[4]s`.\n", kvResult(kind), kind, usage, goName(kind.String()))
		}
	}
	return append(out.Bytes(), sections.Bytes()...)
}

// kvResult is what an operation is answered.
func kvResult(kind kv.OpKind) string {
	switch {
	case kind == kv.OpGet:
		return "the entry, `null` if it is absent"
	case kind == kv.OpPut:
		return "the entry that is left, without type and value"
	case kind.Sets():
		return "the entry that is left"
	case kind.Has(kv.MemberTTL):
		return "`lease`, `ttl`"
	case kind.Has(kv.MemberPrefix):
		return "`deleted`, how many there were, and `more`"
	}
	return "`deleted`, how many there were"
}

// kvPaths replaces what the document has about operations: their names, and the paths that follow from their
// rows. These are made of those of a put, if they have a value, or of an increment.
func kvPaths(document []byte) []byte {
	var names list
	for _, kind := range kv.OpKinds() {
		names = append(names, kind.String())
	}
	document = edit(document, func(op object) object { return op.with("enum", names) }, "components", "schemas", "Operation", "properties", "op")
	return edit(document, func(paths object) object {
		key := members(paths.of("/v1/store/key"))
		for _, kind := range kv.OpKinds() {
			form, drop := members(paths.of("/v1/store/incr")).of("post"), []string{"by", "initial", "min", "max"}
			if kind.Has(kv.MemberValue) {
				form, drop = key.of("put"), []string{"seal", "if_absent"}
			}
			if !kind.Sets() {
				drop = append(drop, "ttl_ms", "expires_ms", "lease")
			}
			if !kind.Follows() || kind.Has(kv.MemberBy) {
				continue
			}
			form = edit(form, func(all object) object {
				return slices.DeleteFunc(all, func(f field) bool { return slices.Contains(drop, f.name) })
			}, "requestBody", "content", "application/json", "schema", "properties")
			doc := kind.Doc()
			post := members(form).with("operationId", "store."+kind.String()).with("summary", strings.ToUpper(doc[:1])+doc[1:])
			if !kind.Sets() {
				post = post.with("responses", members(key.of("delete")).of("responses"))
			}
			paths = paths.with("/v1/store/"+kind.String(), object{{"post", post}})
		}
		return paths
	}, "paths")
}
