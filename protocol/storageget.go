package protocol

import (
	"bytes"
	"math"

	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
)

// StorageRead is STGET's request. Its texts are those of the request's body.
type StorageRead struct {
	App, Region, Logic, ID []byte
	Names                  [][]byte
	Versions               bool // tell the fields' versions
}

var defaultID = []byte(field.DefaultID)

// StorageRead reads STGET's request into q, whose room for names is used again. It allocates
// nothing else unless a text has escapes. The texts are not checked.
func (r *Request) StorageRead(q *StorageRead) error {
	var m reader
	m.begin(r)
	top := &m.Top
	*q = StorageRead{App: defaultID, Region: defaultID, Logic: m.Text(top, kvjson.LogicType), ID: m.Text(top, kvjson.OwnerID), Names: q.Names[:0], Versions: m.Flag(top, kvjson.Versions)}
	if top.Has(kvjson.AppID) {
		q.App = m.Text(top, kvjson.AppID)
	}
	if top.Has(kvjson.RegionID) {
		q.Region = m.Text(top, kvjson.RegionID)
	}
	for list := m.Elements(top, kvjson.Names, field.MaxFields); m.Next(&list, nil); {
		if list.Kind() != jsontext.String {
			m.Bad(kvjson.Names, "an array of strings")
			break
		}
		q.Names = append(q.Names, jsontext.Unquote(list.Raw()))
	}
	return m.End()
}

// ReadPlain does the same for a body, in a fraction of the time, if that is in the form that
// this package writes and has no escapes, as most are. If it returns false the body may be
// anything; use [Request.StorageRead].
func (q *StorageRead) ReadPlain(body []byte) bool {
	*q = StorageRead{App: defaultID, Region: defaultID, Names: q.Names[:0]}
	rest, ok := bytes.CutPrefix(body, []byte("{"))
	if !ok {
		return false
	}
	if app, after, ok := plainMember(rest, `"appId":"`); ok {
		q.App, rest = app, after
	}
	if region, after, ok := plainMember(rest, `"regionId":"`); ok {
		q.Region, rest = region, after
	}
	if q.Logic, rest, ok = plainMember(rest, `"logicType":"`); !ok {
		return false
	}
	if q.ID, rest, ok = plainMember(rest, `"ownerId":"`); !ok {
		return false
	}
	for head := `"names":["`; len(q.Names) < field.MaxFields; head = `,"` {
		var name []byte
		if name, rest, ok = plainBehind(rest, head); !ok {
			return false
		}
		if q.Names = append(q.Names, name); len(rest) > 0 && rest[0] == ']' {
			q.Versions = string(rest) == `],"versions":1}`
			return q.Versions || string(rest) == "]}"
		}
	}
	return false
}

// plainMember reads plain text behind head, up to its quote and a comma.
func plainMember(text []byte, head string) (value, rest []byte, ok bool) {
	value, rest, ok = plainBehind(text, head)
	if !ok || len(rest) == 0 || rest[0] != ',' {
		return nil, text, false
	}
	return value, rest[1:], true
}

// plainBehind reads plain text behind head, up to its quote.
func plainBehind(text []byte, head string) (value, rest []byte, ok bool) {
	if len(text) < len(head) || string(text[:len(head)]) != head {
		return nil, nil, false
	}
	if value, rest, ok = plainText(text[len(head):], math.MaxInt); !ok {
		return nil, nil, false
	}
	return value, rest[1:], true
}
