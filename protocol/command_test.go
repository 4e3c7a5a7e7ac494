package protocol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/player/field"
	"confcenter/protocol"
)

// The ids are CppCloud's for ever.
func TestCommandIDs(t *testing.T) {
	want := strings.Fields(`WHOAMI GETCLI HUNGUP GETLOGR EXCHANG SETARGS GETWARN IAMSERV KEEPALIVE BROADCAST CLIERA TESTING UPDATEERA
		GETCONFIG SETCONFIG GETCFGNAME HOCFGNEW SETCONFIG2 SETCONFIG3 BOOKCFGCHANGE EVNOTIFY SVRREGISTER SVRREGISTER2 SVRSEARCH SVRSHOW
		APPRUNLOG TCP_SVR SVRSTAT WEBCTRL`)
	require.Greater(t, len(protocol.Commands), len(want))
	for i, name := range want {
		require.EqualValues(t, i+1, protocol.Commands[i].ID)
		require.Equal(t, name, protocol.Commands[i].Name)
	}
}

// The ids of the state store and of player storage are families of their own. PROTOCOL.md
// says which is which, and TestSpecificationTable holds it against the table.
func TestFamiliesOfCommandIDs(t *testing.T) {
	for _, row := range protocol.Commands {
		for _, id := range []protocol.Command{row.ID, row.ID.Reply()} {
			require.Equal(t, row.ID >= 0x0100 && row.ID < 0x0200, id.IsState(), row.Name)
			require.Equal(t, row.ID < 0x0100, id.IsCppCloud(), row.Name)
			require.Equal(t, row.ID >= 0x0200 && row.ID < 0x0300, id.IsStorage(), row.Name)
			require.Equal(t, row.ID >= 0x0300 && row.ID&0x80 == 0, id.Model() != "", row.Name)
		}
		if row.ID >= 0x0100 {
			require.False(t, row.Anonymous)
			require.Equal(t, row.Push, row.Role == protocol.Pushed)
		}
	}
	for _, id := range []protocol.Command{0, 1, 0xFF, 0x0200, 0x1001, 0x1200, 0x2100, 0x3100, 0xFFFF} {
		require.False(t, id.IsState(), "%v", id)
		require.Equal(t, id == 0x0200 || id == 0x1200, id.IsStorage(), "%v", id)
		require.Empty(t, id.Model(), "%v", id)
	}
	for first, model := range map[protocol.Command]string{0x0300: "history", 0x0400: "flow", 0x0500: "bench", 0x0600: "auth", 0x0700: "audit", 0x0900: "secret"} {
		require.Equal(t, model, first.Model())
		require.Equal(t, model, (first + 0x107F).Model())
		require.Empty(t, (first + 0x1080).Model())
		require.Equal(t, first+3, protocol.OfModel(model, 3))
	}
	require.Zero(t, protocol.OfModel("nothing", 0))
	require.Equal(t, "FL, BN", protocol.PrefixOf("flow")+", "+protocol.PrefixOf("bench")+protocol.PrefixOf("nothing"))
}

func TestCommandRows(t *testing.T) {
	last := protocol.Command(0)
	for _, row := range protocol.Commands {
		require.Greater(t, row.ID, last, "in the order of ids")
		last = row.ID
		require.Equal(t, row.Name, row.ID.String())
		require.Equal(t, row.Name+"_RSP", row.ID.Reply().String())
		require.EqualValues(t, 0x1000+row.ID, row.ID.Reply())
		require.Equal(t, row.ID, row.ID.Reply().Request())
		require.Equal(t, row.ID, row.ID.Request())
		require.False(t, row.ID.IsReply())
		require.True(t, row.ID.Reply().IsReply())
		require.NotContains(t, row.Role.String(), "role")
		require.LessOrEqual(t, row.MaxBody, uint32(protocol.MaxBody))
		require.NotZero(t, row.MaxBody)
		require.False(t, row.Op != 0 && row.Op.String() == "unknown", "%s has an operation that kv's table lacks", row.Name)
	}
}

// A command without a right would be open to everyone.
func TestEveryCommandNamesItsRight(t *testing.T) {
	for _, row := range protocol.Commands {
		require.True(t, row.Right.Known(), row.Name)
		ours := row.Role == protocol.Peers || row.Role == protocol.Unused || row.Role == protocol.Pushed
		require.Equal(t, ours, row.Right == access.Nobody, row.Name)
	}
}

// wholes are the commands of our own that are about everything of a class, so that their right is needed with
// all of it.
var wholes = []protocol.Command{
	protocol.GetLogr, protocol.SvrRegister, protocol.SvrSearch, protocol.SvrShow, protocol.KVStat, protocol.StStatus, protocol.StErrors, protocol.StRetry, protocol.StDrop, protocol.StRescan,
	protocol.LdSettings, protocol.LdClaim, protocol.LdTake, protocol.LdLanded, protocol.LdNewer, protocol.LdRelease,
}

// A row says what its requests are about, or that names are decided about when they are found, or it is about
// everything.
func TestEveryCommandSaysWhatItIsAbout(t *testing.T) {
	for _, row := range protocol.Commands {
		switch row.Right {
		case access.Anyone, access.Nobody:
			require.False(t, row.Named(), row.Name)
		default:
			require.False(t, row.Things != nil && row.Filters, row.Name)
			require.True(t, row.Named() != slices.Contains(wholes, row.ID) || row.ID.Model() != "", row.Name)
		}
	}
	key := protocol.Lookup(protocol.KVGet).Things(&protocol.KVRead{NS: []byte("n"), Key: []byte("k")}, nil)
	require.Equal(t, []op.Thing{op.Key(policy.Read, "n", "k")}, key)
	fields := protocol.Lookup(protocol.StIncr).Things(&field.Write{Owner: field.Owner{App: "1", Region: "2", Logic: "bag", ID: "3"}, Kind: field.Incr}, nil)
	require.Equal(t, []op.Thing{op.Owner(policy.Write, "1", "2", "bag", "3"), op.Owner(policy.Read, "1", "2", "bag", "3")}, fields)
	watch := protocol.Lookup(protocol.CfWatch).Things(&protocol.ConfigWatch{Filter: kv.Filter{Text: "a.json", Exact: true}}, nil)
	require.Equal(t, []op.Thing{op.Document(policy.Watch, "a.json"), op.Document(policy.Read, "a.json")}, watch)
}

// Before WHOAMI only these two are looked at.
func TestAnonymousCommands(t *testing.T) {
	for _, row := range protocol.Commands {
		require.Equal(t, row.ID == protocol.Whoami || row.ID == protocol.Iamserv, row.Anonymous, row.Name)
	}
}

func TestLookupFindsEveryRowAndNothingElse(t *testing.T) {
	rows := map[protocol.Command]*protocol.Row{}
	for i := range protocol.Commands {
		rows[protocol.Commands[i].ID] = &protocol.Commands[i]
	}
	for id := range 1 << 16 {
		c := protocol.Command(id)
		require.True(t, protocol.Lookup(c) == rows[c], "%v", c)
		require.EqualValues(t, protocol.MaxAnonymousBody, protocol.BodyLimit(c, false))
		require.EqualValues(t, protocol.MaxBody, protocol.BodyLimit(c, true))
	}
}

func TestNamesOfUnknownIDs(t *testing.T) {
	for id, want := range map[protocol.Command]string{
		0: "0x0000", 0x1E: "0x001E", 0x101E: "0x101E", 0x1000: "0x1000", 0x2001: "0x2001", 0x3001: "0x3001", 0xFFFF: "0xFFFF",
	} {
		require.Equal(t, want, id.String())
	}
	require.Equal(t, "role 0, role 99", fmt.Sprintf("%v, %v", protocol.Role(0), protocol.Role(99)))
}

// readSpecification reads PROTOCOL.md with the pages of its reference.
func readSpecification(t *testing.T) string {
	t.Helper()
	pages, err := filepath.Glob("../docs/reference/*.md")
	require.NoError(t, err)
	var all strings.Builder
	for _, page := range append([]string{"../PROTOCOL.md"}, pages...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// specificationRow is how PROTOCOL.md writes a row of the table.
func specificationRow(row protocol.Row) string {
	yes := map[bool]string{true: "yes", false: "–"}
	dash := func(members string) string {
		if members == "" {
			return "–"
		}
		return members
	}
	cells := []string{
		fmt.Sprintf("0x%04X", uint16(row.ID)), row.Name, row.Role.String(), fmt.Sprintf("%d MiB", row.MaxBody>>20), yes[row.Anonymous], row.Right.String(), yes[row.Push],
		dash(row.Request), dash(row.Response),
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// The table in prose and the table in code are the same, row by row, both ways.
func TestSpecificationTable(t *testing.T) {
	var written, want []string
	for _, line := range strings.Split(readSpecification(t), "\n") {
		if strings.HasPrefix(line, "| 0x") {
			written = append(written, line)
		}
	}
	for _, row := range protocol.Commands {
		want = append(want, specificationRow(row))
	}
	slices.Sort(written) // the sections are not in the order of ids
	require.Equal(t, want, written)
}

func TestSpecificationHasARowForEachCode(t *testing.T) {
	text := readSpecification(t)
	for _, row := range codes.All() {
		require.Contains(t, text, fmt.Sprintf("\n| %d | %s | ", row.Code, row.Name), row.Code)
	}
}

// An engineer who implements a command finds what to implement, and one who sends it
// finds what becomes of it.
func TestSpecificationHasASectionForEachCommand(t *testing.T) {
	text := readSpecification(t)
	for _, row := range protocol.Commands {
		switch row.Role {
		case protocol.Served, protocol.Routed:
			require.Contains(t, text, fmt.Sprintf("## %s 0x%04X\n", row.Name, uint16(row.ID)))
		}
		for _, member := range strings.FieldsFunc(row.Request+","+row.Response, func(r rune) bool { return strings.ContainsRune(",;:[] –…", r) }) {
			require.Contains(t, text, member, row.Name)
		}
	}
}
