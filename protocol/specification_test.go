package protocol_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/models/flow"
	"confcenter/player/field"
	"confcenter/player/playerjson"
	"confcenter/protocol"
)

// fenced is the contents of the code blocks of a language, in order.
func fenced(text, language string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}

// bytesOf reads a dump: two digits a byte, what follows two blanks is a remark.
func bytesOf(t *testing.T, dump string) []byte {
	t.Helper()
	var out []byte
	for _, line := range strings.Split(dump, "\n") {
		digits, _, _ := strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		require.NoError(t, err, line)
		out = append(out, b...)
	}
	return out
}

// Each dump in PROTOCOL.md is followed by what the printer makes of it.
func TestSpecificationExamplesAreTrueBytes(t *testing.T) {
	text := readSpecification(t)
	dumps, lines := fenced(text, "hex"), fenced(text, "frames")
	require.GreaterOrEqual(t, len(dumps), 4)
	require.Len(t, lines, len(dumps))
	for i, dump := range dumps {
		printed := protocol.Printer{Style: protocol.BodyWhole}.AppendStream(nil, bytesOf(t, dump))
		require.Equal(t, lines[i]+"\n", string(printed))
		require.NotContains(t, string(printed), "! ", "whole frames")
	}
}

// Bodies shown in PROTOCOL.md are JSON.
func TestSpecificationBodiesAreJSON(t *testing.T) {
	bodies := fenced(readSpecification(t), "json")
	require.NotEmpty(t, bodies)
	for _, block := range bodies {
		for _, body := range strings.Split(block, "\n") {
			_, err := jsontext.Check([]byte(body))
			require.NoError(t, err, body)
		}
	}
}

func TestSpecificationNamesTheLimits(t *testing.T) {
	text := readSpecification(t)
	for name, limit := range map[string]int{
		"body before WHOAMI":     protocol.MaxAnonymousBody,
		"body after WHOAMI":      protocol.MaxBody,
		"nesting of a body":      jsontext.MaxDepth,
		"properties in one body": protocol.MaxProperties,
	} {
		require.Contains(t, text, fmt.Sprintf("| %s | %s ", name, thousands(limit)))
	}
}

func TestSpecificationNamesTheStoresLimits(t *testing.T) {
	text := readSpecification(t)
	for name, limit := range map[string]int{
		"namespace":                              kv.MaxNamespace,
		"key or prefix":                          kv.MaxKey,
		"request token":                          kv.MaxToken,
		"value":                                  kv.MaxValue,
		"nesting of a json value":                kv.MaxDepth,
		"operations of one branch":               kv.MaxOps,
		"conditions and fences of a transaction": kv.MaxCompares,
		"keys of one KVMGET":                     protocol.MaxGet,
		"keys one prefix delete removes":         kv.MaxDeletePrefix,
		"entries of one KVLIST":                  kv.MaxList,
		"names of one KVNAMES":                   protocol.MaxNames,
		"versions of one KVHISTORY":              kv.MaxHistory,
	} {
		require.Regexp(t, fmt.Sprintf(`\| %s \| %s[ ,]`, name, thousands(limit)), text)
	}
	require.Contains(t, text, fmt.Sprintf("or %d MiB of keys and values", kv.MaxPage>>20))
	require.Contains(t, text, fmt.Sprintf("| keys and values of one reply | %d MiB |", kv.MaxTxnBytes>>20))
	require.Contains(t, text, fmt.Sprintf("| time to live of a key | %d years |", kv.MaxTTL/(365*24*time.Hour)))
	require.Contains(t, text, fmt.Sprintf("| time of a lease | %d ms to %.0f hours |", kv.MinLease.Milliseconds(), kv.MaxLease.Hours()))
}

// A reader who gets a code finds what it means.
func TestSpecificationNamesTheStoresCodes(t *testing.T) {
	text := readSpecification(t)
	for _, row := range codes.All() {
		if row.Code >= codes.BadType {
			require.Contains(t, text, fmt.Sprintf("\n| %d | ", row.Code), row.Name)
		}
	}
}

// Flow refuses a scope with one code, and the name of a member, a list or a key with another.
func TestSpecificationNamesTheCodesOfNames(t *testing.T) {
	text := readSpecification(t)
	f := flow.Open(nil, flow.Config{})
	_, err := f.List(t.Context(), nil, &flow.ListAsk{Scope: "a.b", List: "cfapplist"})
	require.Regexp(t, fmt.Sprintf(`(?m)^\| %d \| .*flow: a scope`, codes.Of(err)), text)
	_, err = f.List(t.Context(), nil, &flow.ListAsk{List: "nope"})
	require.Regexp(t, fmt.Sprintf(`(?m)^\| %d \| .*flow: .*the name of a member or of a list, or a key`, codes.Of(err)), text)
}

func TestSpecificationNamesTheLimitsOfPlayerStorage(t *testing.T) {
	text := readSpecification(t)
	require.Contains(t, text, fmt.Sprintf("One request names at most\n%s fields", thousands(field.MaxFields)))
	require.Contains(t, text, fmt.Sprintf("those of one kind only; `limit` (number), at most %s", thousands(playerjson.MaxOwners)))
	require.Contains(t, text, fmt.Sprintf("`limit` (number), at most %s, and `after`, an element", thousands(field.MaxErrors)))
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// The bodies shown for the state store's commands can be read as what they are.
func TestSpecificationStateBodies(t *testing.T) {
	requests := 0
	for _, section := range strings.Split(readSpecification(t), "\n### KV")[1:] {
		section, _, _ = strings.Cut(section, "\n## ")
		name, _, _ := strings.Cut(section, " ")
		for _, body := range strings.Split(strings.Join(fenced(section, "json"), "\n"), "\n") {
			if body == "" {
				continue
			}
			r := parsed(t, []byte(body))
			var err error
			switch _, reply := r.Int("code"); {
			case name == "EVENT":
				_, err = protocol.ParseKVEvents([]byte(body))
			case name == "GRANT":
				_, err = protocol.ParseKVGranted([]byte(body))
			case !reply:
				requests++
				err = readRequest(r, "KV"+name)
			}
			require.NoError(t, err, body)
		}
	}
	require.Greater(t, requests, 20)
}

// So can those of player storage, replies included.
func TestSpecificationStorageBodies(t *testing.T) {
	bodies := 0
	for _, row := range protocol.Commands {
		_, section, found := strings.Cut(readSpecification(t), fmt.Sprintf("\n### %s 0x%04X\n", row.Name, uint16(row.ID)))
		if !found || !row.ID.IsStorage() {
			continue
		}
		section, _, _ = strings.Cut(section, "\n##")
		for _, body := range strings.Split(strings.Join(fenced(section, "json"), "\n"), "\n") {
			var r protocol.Request
			require.NoError(t, r.Parse([]byte(body)), body)
			code, reply := r.Int("code")
			var err error
			if reply {
				err = readStorageReply(row.ID, &r)
			} else {
				err = readStorageRequest(row.ID, &r)
			}
			if code != 0 {
				require.ErrorAs(t, err, new(*protocol.RefusedError), body)
			} else {
				require.NoError(t, err, body)
			}
			bodies++
		}
	}
	require.Greater(t, bodies, 20)
}

// readRequest reads the request of the command with that name, and checks it.
func readRequest(r *protocol.Request, name string) (err error) {
	switch name {
	case "KVGET":
		_, err = r.KVGet()
	case "KVMGET":
		_, err = r.KVMGet()
	case "KVLIST":
		err = r.Into(new(protocol.KVListQuery))
	case "KVNAMES":
		err = r.Into(new(protocol.KVNamesQuery))
	case "KVHISTORY":
		err = r.Into(new(protocol.KVHistoryQuery))
	case "KVRESTORE":
		_, err = r.KVRestore()
	case "KVALIVE", "KVLEASEINFO":
		_, err = r.KVLeaseID()
	case "KVLOCK":
		_, err = r.KVLock()
	case "KVUNLOCK":
		_, err = r.KVUnlock()
	case "KVWATCH":
		_, err = r.KVWatch()
	case "KVUNWATCH":
		_, err = r.KVUnwatch()
	default:
		for _, row := range protocol.Commands {
			if row.Name == name {
				w, err := r.KVWrite(row.ID)
				if err != nil {
					return err
				}
				return w.Txn.Check()
			}
		}
	}
	return err
}
