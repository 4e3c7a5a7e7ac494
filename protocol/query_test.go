package protocol_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

func TestRecordsBytes(t *testing.T) {
	records := [][]protocol.Property{{{"_ip", "::1"}, {"svrname", `a"b`}}, {}}
	require.Equal(t, `{"code":0,"desc":"success","data":[{"_ip":"::1","svrname":"a\"b"},{}],"count":2}`,
		string(protocol.AppendRecords(nil, slices.Values(records), true)))
	require.Equal(t, `{"code":0,"desc":"success","data":[]}`, string(protocol.AppendRecords(nil, slices.Values([][]protocol.Property(nil)), false)))
	require.Equal(t, `{"code":0,"desc":"success","data":["b","a\nb"]}`, string(protocol.AppendLines(nil, []string{"b", "a\nb"})))
	require.Equal(t, `{"code":0,"desc":"success","data":[]}`, string(protocol.AppendLines(nil, nil)))
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.MapOfN(rapid.String(), rapid.String(), 0, 4), 0, 4).Draw(t, "records")
		var records [][]protocol.Property
		for _, record := range want {
			var props []protocol.Property
			for name, value := range record {
				props = append(props, protocol.Property{Name: name, Value: value})
			}
			records = append(records, props)
		}
		body := protocol.AppendRecords(nil, slices.Values(records), rapid.Bool().Draw(t, "count"))
		got, _, err := protocol.ParseRecords(body)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
		if n, ok := parse(t, string(body)).Int("count"); ok {
			require.EqualValues(t, len(want), n)
		}
	})
}

func TestLinesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return text(t, "line") }), 0, 5).Draw(t, "lines")
		got, err := protocol.ParseLines(protocol.AppendLines(nil, want))
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
	})
}

func TestParseRecordsTakesWhatThereIs(t *testing.T) {
	got, _, err := protocol.ParseRecords([]byte(`{"data":[{"a":"x","a":"y","n":1},3,{}],"code":0}`))
	require.NoError(t, err)
	require.Equal(t, []map[string]string{{"a": "x"}, {}, {}}, got)
	lines, err := protocol.ParseLines([]byte(`{"data":["a",1,"b"],"code":0}`))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, lines)
}

func TestParseRecordsRefuses(t *testing.T) {
	lines := func(body string) error { _, err := protocol.ParseLines([]byte(body)); return err }
	records := func(body string) error { _, _, err := protocol.ParseRecords([]byte(body)); return err }
	for name, parse := range map[string]func(string) error{"records": records, "lines": lines} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, parse(`{"data":[]}`), `reply has no valid member "code"`)
			require.EqualError(t, parse(`{"code":0}`), `reply has no valid member "data"`)
			require.EqualError(t, parse(`{"code":0,"data":{}}`), `reply has no valid member "data"`)
			var refused *protocol.RefusedError
			require.ErrorAs(t, parse(`{ "code": 404, "desc": "no exit svrid=7"}`), &refused)
			require.Equal(t, protocol.Result{Code: 404, Desc: "no exit svrid=7"}, refused.Result)
			require.Error(t, parse(``))
		})
	}
}

func FuzzParseRecords(f *testing.F) {
	f.Add([]byte(`{ "code": 0, "desc": "success", "data": [{"svrid":"1","a":"b"},{}], "count": 2}`))
	f.Add([]byte(`{"code":0,"data":[1,[],{"a":1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		records, _, err := protocol.ParseRecords(body)
		if err != nil {
			require.Nil(t, records)
			return
		}
		var again [][]protocol.Property
		for _, record := range records {
			var props []protocol.Property
			for name, value := range record {
				props = append(props, protocol.Property{Name: name, Value: value})
			}
			again = append(again, props)
		}
		got, _, err := protocol.ParseRecords(protocol.AppendRecords(nil, slices.Values(again), true))
		require.NoError(t, err)
		require.Equal(t, records, got)
	})
}

func FuzzParseLines(f *testing.F) {
	f.Add([]byte(`{ "code": 0, "desc": "success", "data": ["TIME: CLIENT_LOGIN| x", "b"]}`))
	f.Add([]byte(`{"code":0,"data":[1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		lines, err := protocol.ParseLines(body)
		if err != nil {
			require.Nil(t, lines)
			return
		}
		got, err := protocol.ParseLines(protocol.AppendLines(nil, lines))
		require.NoError(t, err)
		require.Equal(t, lines, got)
	})
}
