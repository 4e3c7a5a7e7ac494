package http

import (
	"net/http"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/server/edge"
)

// maxReadBack bounds what the gets of one transaction may return.
const maxReadBack = 8 << 20

// storeTxn performs a transaction. Its members are named as in KVTXN's request;
// times also have the names that they have elsewhere over HTTP.
func (g *Gateway) storeTxn(w *reply, r *http.Request) error {
	p := parametersOf(r)
	reveal := p.flag("reveal")
	if err := p.end(); err != nil {
		return err
	}
	m, err := w.readObject(r, kvjson.HTTPTxn)
	if err != nil {
		return err
	}
	txn := &kv.Txn{}
	m.Txn("", txn)
	if err := m.End(); err != nil {
		return err
	}
	if err := g.judgeTxn(w, r, txn); err != nil {
		return err
	}
	if err := w.prepare(txn); err != nil {
		return err
	}
	branches := map[bool]branch{true: branchOf(txn.Then), false: branchOf(txn.Else)} // sealed; the store owns txn from here
	res, err := g.carryOut(w, txn)
	if err != nil {
		return err
	}
	size := res.Size()
	if size > maxReadBack {
		return codes.Errorf(codes.TooLarge, "the transaction was applied, at revision %d, but what it read has %d bytes and the limit of one reply is %d; read it again in parts",
			res.Revision, size, maxReadBack)
	}
	return w.sendLong(size, func(out *kvjson.Writer) {
		out.Bool(kvjson.Held, res.Held)
		out.Number(kvjson.Revision, int64(res.Revision))
		out.Flag(kvjson.Replayed, res.Replayed)
		branches[res.Held].append(out, res, w.Revealer(reveal))
	})
}

// branch is what is needed of a branch's operations to answer for them.
type branch struct {
	forms []kvjson.OpForm
	puts  []kv.Value
}

func branchOf(ops []kv.Op) branch {
	puts := make([]kv.Value, len(ops))
	for i := range ops {
		puts[i] = ops[i].Value
	}
	return branch{kvjson.FormsOf(ops), puts}
}

func (br branch) append(out *kvjson.Writer, res *kv.Result, reveal *edge.Revealer) {
	did := res.Ops
	if res.Replayed {
		did = slices.Clone(did)
		for i := range min(len(did), len(br.puts)) {
			did[i].Entry = whole(did[i].Entry, br.puts[i])
		}
	}
	out.Results(br.forms, reveal.Results(did))
}

// whole adds the value to the entry that a put has left: a replayed result has no
// values.
func whole(entry *kv.Entry, value kv.Value) *kv.Entry {
	if entry == nil || entry.Value.Type != 0 || entry.Deleted() {
		return entry
	}
	e := *entry
	e.Value = value
	return &e
}
