// Package hide takes out of bodies what gives away more than a person who looks for an odd frame needs:
// tokens, and values that are secret.
//
// On the wire they are recognised by what they look like, by what is asked for, and by what they are
// called, also in JSON that is the text of a string: the text of a token or session anywhere; the token of WHOAMI; the mark of a sealed value;
// what a request has sealed; all values of a reply or a push that was asked for with reveal; and
// members with names like password. What a program is given of a sealed value without asking to have
// it revealed, as by GETCONFIG, can be told only by its name.
package hide

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// Mask stands in the place of what is hidden.
const Mask = "***"

var (
	// texts are those of tokens and sessions, whose ids are no secrets, and marks of sealed values, whose
	// keys and origins are none.
	texts = regexp.MustCompile(`(cc[ts]_[0-9a-f]+_)[0-9A-Za-z_-]+|(\$secret:v[0-9]+:[^:"\\]*:)[0-9A-Za-z+/=_-]+`)
	// named are the names of members, in text that is no whole JSON and may be quoted once more.
	named = regexp.MustCompile(`([^"]*)"(?:\s|\\[nrt])*:`)
	// hunk is where a part of a unified diff begins.
	hunk = regexp.MustCompile(`(?m)^@@ -([0-9]+)`)
)

// Text hides tokens and marks in a text of any kind.
func Text(text string) string { return string(masked([]byte(text))) }

func masked(text []byte) []byte { return texts.ReplaceAll(text, []byte("${1}${2}"+Mask)) }

// words are in the names of members that are secret, without what is between words.
var words = []string{"password", "passwd", "passphrase", "secret", "credential", "privatekey", "apikey", "accesskey"}

// Secret reports whether a member is secret by its name. One that ends with token is so in the contents
// of documents and values only: a request's own is a name that tells apart requests.
func Secret(name string, contents bool) bool {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
	return plain == "pwd" || contents && strings.HasSuffix(plain, "token") ||
		slices.ContainsFunc(words, func(word string) bool { return strings.Contains(plain, word) })
}

// secretPath reports whether a key path leads into what is secret by its name.
func secretPath(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return name == "$seal" || Secret(name, true) })
}

// Reveals reports whether a request asks for what is sealed, or by a path for what is secret by its name,
// so that its reply has to be hidden as one that reveals.
func Reveals(cmd protocol.Command, body []byte) bool {
	if !bytes.Contains(body, []byte("reveal")) && !bytes.Contains(body, []byte("key_pattern")) && !bytes.Contains(body, []byte(`"path"`)) && !bytes.Contains(body, []byte(`\u`)) {
		return false
	}
	var r protocol.Request
	if r.ParseTailed(body) != nil {
		return false
	}
	if m, ok := r.Member("reveal"); ok && asked(m.Raw) {
		return true
	}
	for _, member := range []string{"key_pattern", "path"} {
		if (cmd == protocol.GetConfig || cmd == protocol.CfWatch || ofHistory(cmd)) && secretPath(string(r.Text(member))) {
			return true
		}
	}
	return false
}

// asked reports whether a flag is set.
func asked(raw []byte) bool { return string(raw) != "false" && string(raw) != "0" }

// Body is a body without what is hidden. whole says that none of it is missing, and revealed that it is,
// or may be, what a request has asked to have revealed. It may be the body itself, which stays as it is.
func Body(cmd protocol.Command, body []byte, whole, revealed bool) []byte {
	end := len(body)
	if nul := bytes.IndexByte(body, 0); nul >= 0 && !cmd.IsState() {
		end = nul // servers read no further
	} else if cmd.IsState() {
		if _, kind, n, err := jsontext.ScanPrefix(nil, body); err == nil && kind == jsontext.Object {
			end = n
		}
	}
	text := body[:end]
	if _, err := jsontext.Check(text); err != nil || !whole {
		if revealed || cmd == protocol.Whoami && len(body) > 0 || tells(body, false) || !whole && ofHistory(cmd) && bytes.Contains(body, []byte(`"text"`)) {
			return []byte(Mask)
		}
		return masked(body)
	}
	h := hider{text: text, revealed: revealed, whoami: cmd == protocol.Whoami, history: ofHistory(cmd)}
	h.begin()
	if h.done == 0 {
		return body
	}
	return append(append(h.out, text[h.done:]...), body[end:]...)
}

// ofHistory reports whether a frame is one of the commands of the history of documents, which have texts
// and parts of them.
func ofHistory(cmd protocol.Command) bool { return strings.HasPrefix(cmd.String(), "CF") }

// tells reports whether a text that is no whole JSON may hold what is secret: a name in it says so, or it
// is a diff and what is around its lines is not known. contents says that it is none of a request's own.
func tells(text []byte, contents bool) bool {
	for _, found := range named.FindAllSubmatch(text, -1) {
		name := strings.TrimRight(string(found[1]), `\`)
		if name == "seal" || name == "$seal" || name == "reveal" || strings.Contains(name, `\u`) || Secret(name, contents || name != "token") {
			return true
		}
	}
	for _, found := range hunk.FindAllSubmatch(text, -1) {
		if first := string(found[1]); first != "0" && first != "1" {
			return true
		}
	}
	return false
}

// within hides what is secret in a string that holds JSON, or a part of it. It may return the text itself.
func within(text []byte, revealed bool) []byte {
	if kind, err := jsontext.Check(text); err != nil {
		if tells(text, true) {
			return []byte(Mask)
		}
		return text
	} else if kind != jsontext.Object && kind != jsontext.Array {
		return text
	}
	h := hider{text: text, revealed: revealed, inner: true}
	h.begin()
	if h.done == 0 {
		return text
	}
	return append(h.out, text[h.done:]...)
}

// hider goes once through valid JSON.
type hider struct {
	text             []byte
	whoami, revealed bool
	inner            bool // the text was a string, so that nothing in it is a request's own
	history          bool // a text may be a part of a document
	looks            bool // something may look like a token or a mark
	marks            bool // a member may say that a value beside it is secret

	out  []byte
	done int // how much of text is in out
}

func (h *hider) begin() {
	has := func(part string) bool { return bytes.Contains(h.text, []byte(part)) }
	escaped := has(`\u`)
	h.looks = escaped || has("cct_") || has("ccs_") || has("$secret:")
	h.marks = escaped || has("seal") || has(`"path"`)
	if only := bytes.Trim(h.text, " \t\r\n"); only[0] == '"' {
		h.string(bytes.IndexByte(h.text, '"'), only, false)
		return
	}
	h.container(jsontext.Iterate(h.text), !h.inner, false)
}

// container goes through an object or array. top says that its members are those of a request or reply, and
// sealed that the values in it are secret.
func (h *hider) container(it jsontext.Iter, top, sealed bool) {
	object := it.Container() == jsontext.Object
	if object && h.marks {
		for member := it; member.Next(); {
			sealed = sealed || marks(member.KeyToken(), member.Raw())
		}
	}
	for it.Next() {
		prose := false
		if object {
			name := h.string(it.KeyOffset(), it.KeyToken(), false)
			if h.hides(string(name), it.Raw(), top, sealed) {
				h.replace(it.Offset(), it.Raw(), []byte(Mask))
				continue
			}
			prose = top && string(name) == "desc"
		}
		switch it.Kind() {
		case jsontext.Object, jsontext.Array:
			h.container(it.Enter(), false, sealed)
		case jsontext.String:
			h.string(it.Offset(), it.Raw(), prose)
		}
	}
}

// replace has another text stand in the place of a value.
func (h *hider) replace(at int, value, with []byte) {
	h.out = jsontext.AppendQuote(append(h.out, h.text[h.done:at]...), with)
	h.done = at + len(value)
}

// string hides what a string looks like, and returns it. prose are the server's own words, which quote names.
func (h *hider) string(at int, quoted []byte, prose bool) []byte {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = jsontext.Unquote(quoted)
		if !prose && (bytes.IndexByte(text, '"') >= 0 || bytes.Contains(text, []byte("@@ -"))) {
			if safe := within(text, h.revealed); !bytes.Equal(safe, text) {
				h.replace(at, quoted, masked(safe))
				return text
			}
		}
	}
	if h.looks && texts.Match(text) {
		h.replace(at, quoted, masked(text))
	}
	return text
}

// hides reports whether the value of a member is hidden.
func (h *hider) hides(name string, value []byte, top, sealed bool) bool {
	switch value[0] {
	case 't', 'f', 'n': // true, false and null say nothing
		return false
	}
	switch name {
	case "token":
		return !top || h.whoami
	case "$seal":
		return true
	case "value", "contents", "old", "new", "prev", "current":
		return h.revealed || sealed
	case "text":
		return h.history && value[0] == '"' && partOf(value)
	}
	return Secret(name, !top)
}

// partOf reports whether a text of a document is neither whole nor a diff.
func partOf(quoted []byte) bool {
	text := jsontext.Unquote(quoted)
	_, err := jsontext.Check(text)
	return err != nil && len(text) > 0 && !hunk.Match(text)
}

// marks reports whether a member says of the values beside it that they are secret: they are to be sealed, or
// are at a path that is secret.
func marks(name, value []byte) bool {
	switch {
	case jsontext.UnquotedEqual(name, []byte("seal")):
		return asked(value)
	case jsontext.UnquotedEqual(name, []byte("path")) && value[0] == '"':
		return secretPath(string(jsontext.Unquote(value)))
	}
	return false
}
