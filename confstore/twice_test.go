package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/change"
)

var twiceTexts = []string{`{"a":1,"x":0,"a":2}`, `{"o":[{"b":1,"\u0062":2}]}`}

func twiceProblems(s *Store) (names []string) {
	for _, p := range s.Problems() {
		if p.Kind == OfFile {
			names = append(names, p.Name)
		}
	}
	return names
}

// TestAMemberThatStandsTwiceIsRefused: it has two values, and who reads it decides which.
func TestAMemberThatStandsTwiceIsRefused(t *testing.T) {
	for _, text := range twiceTexts {
		m := newMemKit(t, map[string]string{"a.json": `{"a":0}`})
		for _, exact := range []bool{true, false} {
			_, err := m.set(SetRequest{Name: "a.json", Contents: []byte(text), Exact: exact})
			require.ErrorIs(t, err, codes.BadJSON)
			require.ErrorContains(t, err, "stands twice in an object")
			require.ErrorContains(t, err, "line 1 column")
		}
		for _, check := range []bool{true, false} {
			_, err := changeNow(t, m.Store, change.Request{Check: check, Documents: []change.Document{write("a.json", text)}})
			require.ErrorIs(t, err, codes.BadJSON)
		}
		require.Equal(t, `{"a":0}`, m.text("a.json"))

		m.edit("a.json", text, 2000)
		m.edit("new.json", text, 2000)
		require.Equal(t, `{"a":0}`, m.text("a.json"), "the last good version stays")
		require.Contains(t, m.Snapshot().Node("a.json").Broken(), "stands twice in an object")
		require.Contains(t, m.Fault("new.json"), "stands twice in an object")
		m.reopen()
		require.Equal(t, `{"a":0}`, m.text("a.json"), "after a start, too")
		require.NotEmpty(t, m.Fault("new.json"))
	}
}

// TestWhatWasInServiceMayComeBack: nothing that programs had is taken away from them.
func TestWhatWasInServiceMayComeBack(t *testing.T) {
	for _, text := range twiceTexts {
		m := newMemKit(t, map[string]string{"a.json": text, "b.json": "1"})
		compact := m.text("a.json")
		require.Contains(t, compact, text[:4], "a start without memory serves what it finds")
		require.Equal(t, []string{"a.json"}, twiceProblems(m.Store))
		m.Reload()
		m.reopen()
		require.Equal(t, compact, m.text("a.json"))
		require.Equal(t, []string{"a.json"}, twiceProblems(m.Store), "until it is mended")
		m.mustSet("a.json", `{"a":3}`)
		require.Empty(t, twiceProblems(m.Store))

		for what, by := range map[string]*access.Actor{"rollback": {Origin: access.Rollback}, "approve": {Approver: "max"}} {
			_, err := changeNow(t, m.Store, change.Request{Actor: by, Documents: []change.Document{write("a.json", text)}})
			require.NoError(t, err, what)
			require.Equal(t, compact, m.text("a.json"), what)
			m.Reload()
			require.Empty(t, m.Snapshot().Node("a.json").Broken(), what)
			require.Equal(t, []string{"a.json"}, twiceProblems(m.Store), what)
			m.reopen()
			require.Equal(t, compact, m.text("a.json"), what)
			m.edit("a.json", `{"a":4}`, 3000)
			require.Empty(t, twiceProblems(m.Store), what)
			require.Equal(t, `{"a":4}`, m.text("a.json"))
		}
		m.edit("a.json", `{"a":4,`, 4000)
		require.Equal(t, []string{"a.json"}, twiceProblems(m.Store))
		m.remove("a.json")
		require.Empty(t, twiceProblems(m.Store))
	}
}
