package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop/looptest"
)

// crowd is a bench with self, who asks, and others named seen and hidden.
type crowd struct {
	*gatetest.Bench
	t            *testing.T
	self         *gate.Session
	w            *looptest.Wire
	seen, hidden *gate.Session
	inbox        map[*gate.Session]*looptest.Wire
}

const selfID, seenID, hiddenID, noneID = 10, 20, 30, 40

func newCrowd(t *testing.T, rules ...string) *crowd {
	b, _ := newClientBench(t)
	c := &crowd{Bench: b, t: t, inbox: map[*gate.Session]*looptest.Wire{}}
	enter := func(id int32, name string) *gate.Session {
		s, w := gatetest.Connect(t, b.Local, gatetest.Unlimited)
		require.NoError(t, s.Identify(id, []protocol.Property{{Name: "svrname", Value: name}, {Name: "clitype", Value: "1"}}))
		s.Receive(gatetest.Requests(protocol.SetArgs, `{"warn":"ng"}`))
		w.Got.Reset()
		c.inbox[s] = w
		return s
	}
	c.self, c.seen, c.hidden = enter(selfID, "self"), enter(seenID, "seen"), enter(hiddenID, "hidden")
	gatetest.Connect(t, b.Local, gatetest.Unlimited) // has not said who it is
	c.w = c.inbox[c.self]
	c.self.Rights = guardtest.Caller(t, rules...)
	return c
}

// ask returns the body of the reply, if any.
func (c *crowd) ask(cmd protocol.Command, body string, args ...any) string {
	c.w.Got.Reset()
	c.self.Receive(protocol.AppendFrame(nil, cmd, 1, fmt.Appendf(nil, body, args...)))
	for c.Group.Jobs() > 0 {
		c.Group.DoJob(0)
	}
	gatetest.Sweep(c.Local)
	if c.w.Got.Len() == 0 {
		return ""
	}
	return c.w.Got.String()[protocol.HeaderSize:]
}

func (c *crowd) got(s *gate.Session) string { return c.inbox[s].Got.String() }

func TestOnlyProgramsAreListedThatMayBeRead(t *testing.T) {
	for _, rules := range [][]string{{"read clients:seen"}, {"* clients", "-read clients:hidden"}} {
		c := newCrowd(t, rules...)
		for _, cmd := range []protocol.Command{protocol.GetCli, protocol.GetWarn} {
			for _, body := range []string{`{}`, `{"limit":10}`, `{"key":"svrname"}`} {
				list := c.ask(cmd, "%s", body)
				require.Contains(t, list, `"seen"`, "%s %s %s", cmd, body, rules)
				require.Contains(t, list, `"self"`)
				require.NotContains(t, list, "hidden")
			}
		}
		require.Contains(t, c.ask(protocol.GetCli, `{"limit":2}`), `"count":2`, "nor are they counted")
		require.NotContains(t, c.ask(protocol.GetCli, `{"limit":2}`), `"more"`)
		require.Contains(t, c.ask(protocol.GetCli, `{"svrid":%d}`, seenID), `"seen"`)
		require.Equal(t, c.ask(protocol.GetCli, `{"svrid":%d}`, noneID), swap(c.ask(protocol.GetCli, `{"svrid":%d}`, hiddenID)))
		require.Equal(t, c.ask(protocol.GetWarn, `{"filter_key":"svrname","filter_val":"none"}`), c.ask(protocol.GetWarn, `{"filter_key":"svrname","filter_val":"hidden"}`))
	}
	require.Contains(t, newCrowd(t, "* clients").ask(protocol.GetCli, `{}`), `"count":4`)
	require.Contains(t, newCrowd(t, "read clients:other").ask(protocol.GetCli, `{}`), `"count":1`, "itself")
	require.Contains(t, newCrowd(t, "send clients", "* kv").ask(protocol.GetCli, `{}`), `"code":1025`)
}

// swap is an answer about the hidden client as it would be about one that does not exist.
func swap(answer string) string {
	return strings.ReplaceAll(answer, fmt.Sprint(hiddenID), fmt.Sprint(noneID))
}

func TestMessagesGoOnlyToProgramsThatTheyMayBeSentTo(t *testing.T) {
	c := newCrowd(t, "send clients:seen", "read clients")
	for _, m := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.Exchang, `{"to":%d,"m":1}`},
		{protocol.EvNotify, `{"to":%d,"notify":"x"}`},
		{protocol.AppRunLog, `{"to":%d,"path":"p"}`},
		{protocol.Exchang.Reply(), `{"to":%d,"m":1}`},
		{protocol.EvNotify.Reply(), `{"to":%d,"code":0}`},
		{protocol.AppRunLog.Reply(), `{"to":%d,"code":0}`},
	} {
		c.inbox[c.seen].Got.Reset()
		require.Empty(t, c.ask(m.cmd, m.body, seenID), m.cmd)
		require.NotEmpty(t, c.got(c.seen), m.cmd)
		none := c.ask(m.cmd, m.body, noneID)
		require.Equal(t, none, swap(c.ask(m.cmd, m.body, hiddenID)), m.cmd)
		require.Empty(t, c.got(c.hidden), m.cmd)
	}
	require.Contains(t, c.ask(protocol.Exchang, `{"to":%d,"m":"to itself"}`, selfID), "to itself")
}

func TestHangingUpOnAProgramNeedsTheRightToDeleteIt(t *testing.T) {
	c := newCrowd(t, "delete clients:seen")
	hangUp := func(id int32) string { return c.ask(protocol.EvNotify, `{"notify":"closelink","svrid":%d}`, id) }
	require.Equal(t, hangUp(noneID), hangUp(hiddenID))
	require.Equal(t, noneAnswer(t), hangUp(hiddenID))
	require.False(t, c.hidden.Gone() || c.hidden.Ending())
	hangUp(seenID)
	require.True(t, c.seen.Gone() || c.seen.Ending())
	c = newCrowd(t, "send clients", "read clients")
	require.Equal(t, noneAnswer(t), hangUp(seenID))
	require.False(t, c.seen.Gone() || c.seen.Ending())
	hangUp(selfID)
	require.True(t, c.self.Gone() || c.self.Ending(), "itself")
}

// noneAnswer is what is answered about who does not exist, where there is no access control.
func noneAnswer(t *testing.T) string {
	c := newCrowd(t)
	c.self.Rights = nil
	return c.ask(protocol.EvNotify, `{"notify":"closelink","svrid":%d}`, noneID)
}

func TestWhoHasLeftIsToldAndForgottenByName(t *testing.T) {
	c := newCrowd(t, "read clients:seen", "delete clients:hidden")
	c.seen.Abort("test")
	c.hidden.Abort("test")
	left := func() string { return c.ask(protocol.Hungup, `{"op":"get"}`) }
	require.Contains(t, left(), `"seen"`)
	require.NotContains(t, left(), "hidden")
	require.Equal(t, swap(c.ask(protocol.Hungup, `{"op":"get","svrid":%d}`, hiddenID)), c.ask(protocol.Hungup, `{"op":"get","svrid":%d}`, noneID))
	require.Contains(t, c.ask(protocol.Hungup, `{"op":"set"}`), `"code":0`)
	c.self.Rights = nil
	require.Contains(t, left(), `"seen"`)
	require.NotContains(t, left(), "hidden", "it may be forgotten")
}
