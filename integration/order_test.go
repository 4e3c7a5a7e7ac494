package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// burst collects frames that leave in one write.
type burst struct {
	frames []byte
	seq    uint16
}

func (b *burst) add(cmd protocol.Command, body string) {
	b.seq++
	b.frames = protocol.AppendFrame(b.frames, cmd, b.seq, []byte(body))
}

func TestRepliesComeInTheOrderOfRequests(t *testing.T) {
	t.Parallel()
	t.Run("across_all_kinds_of_commands", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`, "large.json", `{"k":"`+strings.Repeat("x", 300_000)+`","end":1}`)})
		p := peer(t, srv)
		var b burst
		var want []protocol.Command
		for i := range 200 {
			for _, r := range []struct {
				cmd  protocol.Command
				body string
			}{
				{protocol.SetConfig, fmt.Sprintf(`{"filename":"b%d.json","contents":{"i":%d}}`, i%7, i)},
				{protocol.GetConfig, `{"file_pattern":"a.json"}`},
				{protocol.GetCli, `{}`},
				{protocol.GetConfig, `{"file_pattern":"large.json","key_pattern":"end"}`},
				{protocol.GetCfgName, ``},
				{protocol.KeepAlive, ``},
				{protocol.SetConfig, `{"filename":"../x","contents":1}`},
				{protocol.SetConfig, `{"filename":"c.json","contents":` + fmt.Sprint(i) + `}`},
				{protocol.GetLogr, `{"size":3}`},
				{protocol.SvrShow, ``},
				{protocol.GetWarn, `{`},
			} {
				b.add(r.cmd, r.body)
				want = append(want, r.cmd)
			}
			if i%50 != 0 {
				continue
			}
			for _, r := range []struct {
				cmd  protocol.Command
				body string
			}{
				{protocol.GetConfig, `{"file_pattern":"large.json"}`},
				{protocol.KVPut, `{"ns":"n","key":"large","value":"` + strings.Repeat("x", 200_000) + `"}`},
				{protocol.KVGet, `{"ns":"n","key":"large"}`},
				{protocol.KVGet, `{"ns":"n","key":"none"}`},
				{protocol.KVGet, `{"ns":"n","key":"none"}`},
				{protocol.KVHistory, `{"ns":"n","key":"large"}`},
				{protocol.KVList, `{"ns":"n"}`},
				{protocol.KVGet, `{"ns":"n","key":"none"}`},
			} {
				b.add(r.cmd, r.body)
				want = append(want, r.cmd)
			}
		}
		go p.Write(b.frames)
		for i, cmd := range want {
			answered(t, p, cmd, uint16(i+1))
		}
		p.Quiet()
	})
	t.Run("a_full_queue_of_the_store_makes_a_connection_wait_and_loses_nothing", func(t *testing.T) {
		srv := start(t, servertest.Options{Store: confstore.Config{QueueLength: 2}})
		const peers, writes = 4, 100
		var all []*servertest.Peer
		for n := range peers {
			p := peer(t, srv)
			all = append(all, p)
			var b burst
			for i := range writes {
				b.add(protocol.SetConfig, fmt.Sprintf(`{"filename":"p%d.json","contents":%d}`, n, i))
			}
			p.Raw(b.frames)
		}
		for n, p := range all {
			for i := range writes {
				require.EqualValues(t, 0, result(t, answered(t, p, protocol.SetConfig, uint16(i+1))).Code)
			}
			require.Equal(t, fmt.Sprint(writes-1), string(p.Get(fmt.Sprintf("p%d.json", n)).Contents))
		}
	})
}

func TestARequestSeesEveryEarlierWriteOfItsConnection(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	var b burst
	const rounds = 100
	for i := range rounds {
		b.add(protocol.SetConfig, fmt.Sprintf(`{"filename":"a.json","contents":{"i":%d}}`, i))
		b.add(protocol.SetConfig, fmt.Sprintf(`{"filename":"b.json","contents":{"i":%d}}`, i))
		b.add(protocol.GetConfig, `{"file_pattern":"a.json","key_pattern":"i"}`)
		b.add(protocol.GetConfig, `{"file_pattern":"b.json","key_pattern":"i"}`)
		b.add(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
		b.add(protocol.BookCfgChange, `{"file_pattern":"a.json","unsubscribe":1}`)
	}
	go p.Write(b.frames)
	for seq := uint16(0); seq < 6*rounds; seq += 6 {
		var mtimes []int32
		for i := range uint16(2) {
			u, err := protocol.ParseConfigUpdated([]byte(answered(t, p, protocol.SetConfig, seq+i+1)))
			require.NoError(t, err)
			mtimes = append(mtimes, u.Mtime)
		}
		require.Equal(t, reply(mtimes[0], `"a.json"`, fmt.Sprint(seq/6)), answered(t, p, protocol.GetConfig, seq+3))
		require.Equal(t, reply(mtimes[1], `"b.json"`, fmt.Sprint(seq/6)), answered(t, p, protocol.GetConfig, seq+4))
		s, err := protocol.ParseSubscribed([]byte(answered(t, p, protocol.BookCfgChange, seq+5)))
		require.NoError(t, err)
		require.Equal(t, mtimes[0], s.Mtime)
		answered(t, p, protocol.BookCfgChange, seq+6)
	}
	p.Quiet()
}

func TestASubscribedWriterSeesEachPushThenItsReply(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `0`)})
	p := peer(t, srv)
	var b burst
	b.add(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
	for i := range 50 {
		b.add(protocol.SetConfig, fmt.Sprintf(`{"filename":"a.json","contents":%d}`, i+1))
	}
	p.Raw(b.frames)
	answered(t, p, protocol.BookCfgChange, 1)
	for i := range uint16(50) {
		// By then the changes of its reply have been pushed, in this order.
		mtime := p.Push().Mtime
		u, err := protocol.ParseConfigUpdated([]byte(answered(t, p, protocol.SetConfig, i+2)))
		require.NoError(t, err)
		require.Equal(t, mtime, u.Mtime)
	}
	p.Quiet()
}

func TestRoutedFramesAreOutsideTheOrder(t *testing.T) {
	srv := start(t, servertest.Options{})
	p, q := peer(t, srv), peer(t, srv)
	var b burst
	for i := range 100 {
		b.add(protocol.EvNotify, fmt.Sprintf(`{"notify":"n","i":%d,"to":%d}`, i, q.ID))
		b.add(protocol.SetConfig, fmt.Sprintf(`{"filename":"a.json","contents":%d}`, i))
	}
	p.Raw(b.frames)
	for i := range 100 {
		f := q.Next()
		require.Equal(t, protocol.EvNotify, f.Command)
		require.EqualValues(t, 2*i+1, f.Seq, "among themselves they stay in order")
	}
	for i := range 100 {
		answered(t, p, protocol.SetConfig, uint16(2*i+2))
	}
}
