package tcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
	"confcenter/op/sampletest"
	"confcenter/protocol"
	"confcenter/server/tcp"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

var add, list = protocol.OfModel("flow", 0), protocol.OfModel("flow", 1)

// kit is a session without a socket on a sample model.
type kit struct {
	*gatetest.Bench
	*gate.Session
	w *looptest.Wire
}

func newKit(t *testing.T, models ...op.Model) *kit {
	k := &kit{Bench: gatetest.NewBench(t, loop.Limits{Memory: 1_200_000})}
	tcp.Add(k.Bench.Gate, models)
	k.Open()
	k.Session, k.w = k.Peer(gatetest.Unlimited)
	return k
}

// asks sends requests, has workers do what there is to do, and returns the bodies.
func (k *kit) asks(pairs ...any) (bodies []string) {
	k.Receive(gatetest.Requests(pairs...))
	for k.Bench.Group.Jobs() > 0 {
		k.Bench.Group.DoJob(0)
		k.Loop.Wake()
	}
	for k.Out.Owing() > 0 {
		k.w.Read(1 << 30)
		gatetest.Sweep(k.Session.Local)
	}
	for _, frame := range gatetest.Frames(k.T, k.w) {
		_, body, _ := strings.Cut(frame, " ")
		bodies = append(bodies, body)
	}
	return bodies
}

func TestAnyOperationIsAnswered(t *testing.T) {
	k := newKit(t, sampletest.Model(&sampletest.Sample{}))
	require.Equal(t, []string{
		`{"code":0,"name":"a","n":1}`, `{"code":0,"name":"b","n":5}`, `{"code":0,"sums":[{"name":"b","n":5}],"by":"tcp"}`, `{"code":0,"sums":[],"by":"tcp"}`,
	}, k.asks(add, `{"name":"a"}`, add, `{"by":4,"name":"b"}`, list, `{"names":["b"]}`, list, `{}`))
	require.Zero(t, k.Bench.Group.Memory.Held(), "what the questions took is given back")
}

func TestAQuestionThatIsWrongIsRefusedByName(t *testing.T) {
	k := newKit(t, sampletest.Model(&sampletest.Sample{}))
	require.Equal(t, []string{
		`{"code":400,"desc":"member \"Name\" is not known here"}`,
		`{"code":400,"desc":"member \"name\" is there twice"}`,
		`{"code":400,"desc":"member \"by\" must be a whole number"}`,
		`{"code":400,"desc":"name is empty: say what is counted"}`,
		`{"code":1001,"desc":"body json invalid: offset 8: unexpected '}': a key in double quotes should begin here"}`,
		`{"code":1001,"desc":"body is not a JSON object"}`,
		`{"code":0,"name":"a","n":1}`,
	}, k.asks(add, `{"Name":"a"}`, add, `{"name":"a","name":"b"}`, add, `{"name":"a","by":"1"}`, add, `{}`, add, `{"by":1,}`, add, `[]`, add, `{"name":"a"}`))
	require.EqualValues(t, 6, k.Bench.Group.Count.StateRefused.Load())
	require.EqualValues(t, 1, k.Bench.Group.Count.StateWrites.Load())
}

func TestAnAnswerThatIsTooLongIsRefused(t *testing.T) {
	k := newKit(t, sampletest.Model(&sampletest.Sample{}))
	got := k.asks(list, `{"names":["x"],"long":4194304}`)
	require.Len(t, got, 1)
	require.Contains(t, got[0], `{"code":413,"desc":"the answer has 41943`)
	require.Contains(t, got[0], "ask for less at a time")
}

// The memory is that for peers, which is small here.
func TestAQuestionThereIsNoMemoryForIsRefusedAndWorthRepeating(t *testing.T) {
	k := newKit(t, sampletest.Model(&sampletest.Sample{}))
	for _, body := range []string{`{"name":"` + strings.Repeat("x", 800_000) + `"}`, `{"tags":[` + strings.Repeat(`"",`, 100_000) + `""]}`} {
		got := k.asks(add, body)
		require.Equal(t, []string{`{"code":503,"desc":"there is no memory for the question now; try again later, or ask for less at a time","retry_after":1000}`}, got)
		require.Zero(t, k.Bench.Group.Memory.Held())
	}
}

func TestRightsAreThoseOfTheTable(t *testing.T) {
	k := newKit(t, sampletest.Model(&sampletest.Sample{}))
	k.Bench.Gate.Permits = func(_ *gate.Session, row *gate.Route) error {
		if row.Right != access.FlowRead {
			return codes.Forbidden
		}
		return nil
	}
	for _, row := range protocol.Commands {
		if row.ID.Model() != "" {
			got := k.asks(row.ID, `{}`)
			require.Equal(t, row.Right != access.FlowRead, strings.HasPrefix(got[0], fmt.Sprintf(`{"code":%d,`, codes.Forbidden)), row.Name)
		}
	}
}

func TestAModelThatIsNotThereSaysSo(t *testing.T) {
	k := newKit(t)
	for _, row := range protocol.Commands {
		if m := row.ID.Model(); m != "" {
			require.Equal(t, []string{`{"code":501,"desc":"this server has no ` + m + `"}`}, k.asks(row.ID, `{}`))
		}
	}
}
