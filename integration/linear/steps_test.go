package linear_test

import (
	"fmt"
	"math/rand/v2"

	"confcenter/kv"

	"github.com/anishathalye/porcupine"
)

// ns is the namespace of all keys.
const ns = "linear"

func put(key, text string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue(text)}
}

func get(key string) kv.Op { return kv.Op{Kind: kv.OpGet, NS: ns, Key: key} }

func remove(key string) kv.Op { return kv.Op{Kind: kv.OpDelete, NS: ns, Key: key} }

func drop() kv.Op { return kv.Op{Kind: kv.OpDeletePrefix, NS: ns, Confirm: ns} }

// read is the value of an entry, "-" if there is none.
func read(e *kv.Entry) string {
	if e == nil {
		return "-"
	}
	return string(e.Value.Data)
}

// keyStep uses one key at a time, whose values are all different: put, delete,
// get, compare-and-swap with what was seen last.
func keyStep(w *world, random *rand.Rand, text string) (input, output, bool) {
	in := input{kind: "get", key: fmt.Sprint("key", random.IntN(3)), text: text}
	var txn *kv.Txn
	switch random.IntN(6) {
	case 0:
		in.kind, txn = "put", &kv.Txn{Then: []kv.Op{put(in.key, text)}}
	case 1:
		in.kind, txn = "delete", &kv.Txn{Then: []kv.Op{remove(in.key)}}
	case 2:
		in.kind, in.old = "swap", w.get(in.key)
		if random.IntN(3) == 0 {
			in.old = "what nobody wrote"
		}
		condition := kv.Compare{NS: ns, Key: in.key, Target: kv.CompareValue, Relation: kv.Equal, Value: kv.StringValue(in.old)}
		if in.old == "-" {
			condition = kv.Absent(ns, in.key)
		}
		txn = &kv.Txn{If: []kv.Compare{condition}, Then: []kv.Op{put(in.key, text)}}
	case 3:
		txn = &kv.Txn{Then: []kv.Op{get(in.key)}}
	default:
		return in, output{text: w.get(in.key)}, true
	}
	r, out, happened := w.commit(txn, random)
	if r != nil {
		switch in.kind {
		case "get":
			out.text = read(r.Ops[0].Entry)
		case "delete":
			out.held = r.Ops[0].Count == 1
		}
	}
	return in, out, happened
}

func (w *world) get(key string) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	e, _ := w.on.Engine.Get([]byte(ns), []byte(key))
	return read(e)
}

// maybe turns a step of a model in which operations certainly happen into one of a model in which
// those without an answer may not have happened.
func maybe(step func(state, asked, told any) (bool, any)) func(state, asked, told any) []any {
	return func(state, asked, told any) []any {
		ok, next := step(state, asked, told)
		switch {
		case told.(output).unknown:
			return []any{state, next}
		case ok:
			return []any{next}
		}
		return nil
	}
}

// keyModel is one key: its state is its value, "-" if it is absent.
var keyModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(input).key
			parts[key] = append(parts[key], op)
		}
		var list [][]porcupine.Operation
		for _, part := range parts {
			list = append(list, part)
		}
		return list
	},
	Init: func() []any { return []any{"-"} },
	Step: maybe(func(state, asked, told any) (bool, any) {
		now, in, out := state.(string), asked.(input), told.(output)
		switch in.kind {
		case "put":
			return true, in.text
		case "delete":
			return out.held == (now != "-"), "-"
		case "swap":
			holds := now == in.old
			if holds {
				now = in.text
			}
			return out.held == holds, now
		}
		return out.text == now, now
	}),
}).ToModel()

var groupKeys = []string{"x", "y", "z"}

// groupStep changes several keys at a time, or reads them all: in a transaction,
// or through a view.
func groupStep(w *world, random *rand.Rand, text string) (input, output, bool) {
	first, second := groupKeys[random.IntN(3)], groupKeys[random.IntN(3)]
	in := input{kind: "read", key: first + second, text: text}
	txn := &kv.Txn{}
	switch random.IntN(5) {
	case 0:
		in.kind, txn.Then = "write", []kv.Op{put(first, text), put(second, text)}
	case 1:
		in.kind, txn.Then = "clear", []kv.Op{drop()}
	case 2:
		in.kind, txn.If = "write absent", []kv.Compare{kv.Absent(ns, first), kv.Absent(ns, second)}
		txn.Then = []kv.Op{put(first, text), put(second, text)}
	case 3:
		for _, key := range groupKeys {
			txn.Then = append(txn.Then, get(key))
		}
	default:
		return in, output{text: w.view()}, true
	}
	r, out, happened := w.commit(txn, random)
	if r != nil && in.kind == "read" {
		out.text = read(r.Ops[0].Entry) + " " + read(r.Ops[1].Entry) + " " + read(r.Ops[2].Entry)
	}
	return in, out, happened
}

func (w *world) view() string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	v := w.on.Engine.View()
	defer v.Close()
	var texts [3]string
	for i, key := range groupKeys {
		e, err := v.Get(ns, key)
		if err != nil {
			return err.Error()
		}
		texts[i] = read(e)
	}
	return texts[0] + " " + texts[1] + " " + texts[2]
}

// groupModel is three keys together.
var groupModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{[3]string{"-", "-", "-"}} },
	Step: maybe(func(state, asked, told any) (bool, any) {
		now, in, out := state.([3]string), asked.(input), told.(output)
		first, second := in.key[0]-'x', in.key[1]-'x'
		switch in.kind {
		case "clear":
			return true, [3]string{"-", "-", "-"}
		case "write absent":
			holds := now[first] == "-" && now[second] == "-"
			if holds {
				now[first], now[second] = in.text, in.text
			}
			return out.held == holds, now
		case "write":
			now[first], now[second] = in.text, in.text
			return true, now
		}
		return out.text == now[0]+" "+now[1]+" "+now[2], now
	}),
}).ToModel()
