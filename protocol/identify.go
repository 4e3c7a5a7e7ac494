package protocol

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"confcenter/internal/jsontext"
)

// Identify is WHOAMI's request as a client of ours sends it.
type Identify struct {
	// ID asks for an id; 0 lets the server choose.
	ID int32
	// Name is the program's name (svrname), Tag its deployment; both choose the
	// main config.
	Name, Tag string
	// Props are further properties, shown when clients are listed. Names used by the fields
	// above, and names reserved for the server, have no effect.
	Props map[string]string
	// Token proves who the client is; empty: nothing does.
	Token string
}

// ClientType is the clitype of our client; CppCloud's C++ SDK has 100, its Python SDK 200,
// its console 20, a server 1.
const ClientType = 300

// AppendIdentify appends WHOAMI's request.
func AppendIdentify(dst []byte, m Identify) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "svrid", m.ID)
	dst = appendText(dst, "svrname", m.Name)
	if m.Tag != "" {
		dst = appendText(dst, "tag", m.Tag)
	}
	dst = appendInt(dst, "clitype", ClientType)
	if m.Token != "" {
		dst = appendText(dst, MemberToken, m.Token)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Props)) {
		dst = append(jsontext.AppendQuote(append(dst, ','), name), ':')
		dst = jsontext.AppendQuote(dst, m.Props[name])
	}
	return append(dst, '}')
}

// Identified is WHOAMI's reply.
type Identified struct {
	Result
	ID int32
	// MainConf is the client's main config as _meta.json chose it, or empty.
	MainConf string
	// Epoch names the server's data: versions of two servers with different
	// epochs cannot be compared. Empty from a CppCloud server.
	Epoch string
}

// AppendIdentified appends the reply to a WHOAMI that succeeded.
func AppendIdentified(dst []byte, id int32, mainConf, epoch string) []byte {
	dst = append(dst, `{"code":0`...)
	if mainConf != "" {
		dst = appendText(dst, "mconf", mainConf)
	}
	dst = appendInt(dst, "svrid", id)
	return append(appendText(dst, "epoch", epoch), '}')
}

// AppendNotIdentified appends the reply to a WHOAMI that failed. It has a svrid of 0,
// without which Python clients crash.
func AppendNotIdentified(dst []byte, code int, desc string) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "code", int32(code))
	dst = appendInt(dst, "svrid", 0)
	return append(appendText(dst, "desc", desc), '}')
}

// ParseIdentified reads WHOAMI's reply, including a refusal: its Code is not 0 and its ID
// is 0, because CppCloud's server sends none.
func ParseIdentified(body []byte) (Identified, error) {
	var r Request
	res, err := r.parseResult(body)
	if err != nil {
		return Identified{}, err
	}
	id, ok := r.Int("svrid")
	if !ok && res.Code == 0 {
		return Identified{}, &ReplyError{Member: "svrid"}
	}
	return Identified{Result: res, ID: id, MainConf: string(r.Text("mconf")), Epoch: string(r.Text("epoch"))}, nil
}

// Property is one property of a client as WHOAMI and SETARGS give them.
type Property struct{ Name, Value string }

// MemberToken is WHOAMI's member that has the client's token. It is no property: no one is told.
const MemberToken = "token"

// reservedProperties are set by the server, or are not for others; a client's values are ignored.
var reservedProperties = []string{MemberToken, "_ip", "fd", "atime", "clisock", "svrid", "_mainconf"}

// MaxProperties is how many properties one message may give a client.
const MaxProperties = 128

// maxPropertyMembers is how many members a message with properties may have in all.
// Finding duplicates takes time that grows with the square of it.
const maxPropertyMembers = 8 * MaxProperties

// Properties returns the members of a WHOAMI or SETARGS that become properties: strings
// and int32 integers, the first of equal names, without those reserved for the server.
// Other clients see them, so bytes that are not UTF-8 become U+FFFD. It returns false if
// there are more than MaxProperties, or far too many members.
func (r *Request) Properties() ([]Property, bool) {
	if len(r.members) > maxPropertyMembers {
		return nil, false
	}
	var props []Property
	for _, m := range r.members {
		value, ok := propertyValue(m)
		name := strings.ToValidUTF8(string(m.Key), "\uFFFD")
		if !ok || slices.Contains(reservedProperties, string(m.Key)) || slices.ContainsFunc(props, func(p Property) bool { return p.Name == name }) {
			continue
		}
		if len(props) == MaxProperties {
			return nil, false
		}
		props = append(props, Property{Name: name, Value: value})
	}
	return props, true
}

func propertyValue(m jsontext.Member) (string, bool) {
	switch m.Kind {
	case jsontext.String:
		return strings.ToValidUTF8(string(jsontext.Unquote(m.Raw)), "\uFFFD"), true
	case jsontext.Number:
		n, ok := jsontext.Int32(m.Raw)
		return strconv.Itoa(int(n)), ok
	}
	return "", false
}
