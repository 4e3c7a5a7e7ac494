//go:build !race

package watch

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

func TestFramesOfHugeTransactionsFitAndSaySo(t *testing.T) {
	k := newWatchKit(t, loop.Limits{Memory: 4 << 30}, memory.Config{}, nil)
	big := bytes.Repeat([]byte{0xFF}, kv.MaxValue)
	values := kv.PutTxn("n", "big0", kv.BytesValue(big))
	for i := range 2 {
		values.Then = append(values.Then, kv.Op{Kind: kv.OpPut, NS: "n", Key: fmt.Sprintf("big%d", i+1), Value: kv.BytesValue(big)})
	}
	many := func(from int) *kv.Txn {
		txn := &kv.Txn{}
		for i := range kv.MaxOps {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: "n", Key: fmt.Sprintf("small%05d", from+i), Value: kv.IntValue(int64(i))})
		}
		return txn
	}
	sparkling := kv.PutTxn("n", "controls", kv.StringValue(strings.Repeat("\x01", 400_000))) // 2.4 MB, quoted
	dazzling := kv.PutTxn("n", "controls", kv.StringValue(strings.Repeat("\x01", 700_000)))  // 4.2 MB: more than clients may send
	var peers []*watchPeer
	var witnesses []*witness
	watch := func(body string, prev bool, room int) {
		p := k.peer(room)
		_, rev := p.watch(body)
		w := newWitness(k, kv.Filter{NS: "n"}, rev)
		w.prev = prev
		peers, witnesses = append(peers, p), append(witnesses, w)
	}
	const reply = 200 // is all that is read at first
	watch(`{"ns":"n"}`, false, reply)
	watch(`{"ns":"n","prev":1}`, true, gatetest.Unlimited)
	watch(`{"ns":"n","raw":1,"prev":1}`, true, reply)
	k.commit(many(0))
	k.commit(many(kv.MaxOps))
	k.commit(many(2 * kv.MaxOps))
	k.commit(values)
	k.commit(sparkling)
	k.commit(dazzling)
	k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "n", Key: "small"}}})
	k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "n", Key: "", Confirm: "n"}}})
	more := 0
	k.until(func() bool {
		done := true
		for i, p := range peers {
			p.w.Read(1 << 20)
			for _, ev := range p.events() {
				witnesses[i].told(ev)
				if ev.More {
					more++
				}
			}
			done = done && witnesses[i].at == k.state.Revision()
		}
		return done
	}, "everybody knows everything")
	for _, w := range witnesses {
		w.done()
	}
	require.Greater(t, more, 3*20, "long revisions are continued")
}
