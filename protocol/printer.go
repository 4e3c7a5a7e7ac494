package protocol

import (
	"cmp"
	"fmt"
	"strconv"
	"unicode/utf8"

	"confcenter/internal/jsontext"
)

// BodyStyle is how a Printer shows bodies.
type BodyStyle uint8

// The body styles.
const (
	// BodyCut shows at most Printer.Width bytes of the body, compact.
	BodyCut BodyStyle = iota
	// BodyWhole shows all of it, compact, on the frame's line.
	BodyWhole
	// BodyPretty shows it indented on separate lines. It is BodyWhole for a body that is
	// not JSON, or so deep that it would be mostly blanks.
	BodyPretty
	// BodyNone leaves it out.
	BodyNone
)

// Printer turns frames into text: one line a frame,
//
//	GETCONFIG seq=7 24B {"file_pattern":"a.json"}
//
// which is the golden form of conversation tests and what capture tools print. Octets
// after the JSON of a state store command are only counted:
//
//	KVPUT seq=7 46B {"ns":"a","key":"k","type":"bytes","raw":3} raw=3B
//
// Control bytes and invalid UTF-8 are shown as \xNN, so that a peer can break neither the
// line nor the terminal. The zero value cuts bodies at DefaultWidth.
type Printer struct {
	Style BodyStyle
	// Width is the number of body bytes BodyCut shows; 0 means DefaultWidth.
	Width int
}

// DefaultWidth is how much of a body BodyCut shows, in bytes.
const DefaultWidth = 120

// AppendLine appends the line of a frame, without a line feed.
func (p Printer) AppendLine(dst []byte, h Header, body []byte) []byte {
	dst = fmt.Appendf(dst, "%s seq=%d %dB", h.Command, h.Seq, h.BodyLen)
	if len(body) == 0 || p.Style == BodyNone {
		return dst
	}
	if h.Command.IsState() {
		if _, kind, end, err := jsontext.ScanPrefix(nil, body); err == nil && kind == jsontext.Object && end < len(body) {
			return fmt.Appendf(p.appendBody(dst, body[:end]), " raw=%dB", len(body)-end)
		}
	}
	return p.appendBody(dst, body)
}

// appendBody appends the body as the style says.
func (p Printer) appendBody(dst, body []byte) []byte {
	_, err := jsontext.Check(body)
	if p.Style == BodyPretty && err == nil && jsontext.IndentLen(body, indent) <= maxPretty(body) {
		dst = append(dst, '\n')
		return appendVisible(dst, jsontext.AppendIndent(nil, body, indent), true)
	}
	shown := body
	if err == nil {
		shown = jsontext.AppendCompact(nil, body)
	}
	dst = append(dst, ' ')
	if width := cmp.Or(max(p.Width, 0), DefaultWidth); p.Style == BodyCut && len(shown) > width {
		for width > 0 && !utf8.RuneStart(shown[width]) {
			width--
		}
		dst = appendVisible(dst, shown[:width], false)
		return fmt.Appendf(dst, "… +%dB", len(shown)-width)
	}
	return appendVisible(dst, shown, false)
}

const indent = "    "

// maxPretty limits an indented body: text that is both deep and long would grow a
// thousandfold.
func maxPretty(body []byte) int { return 1<<20 + 16*len(body) }

// appendVisible appends text with every byte that is not a printable character
// escaped; a line feed is kept where lines is set.
func appendVisible(dst, text []byte, lines bool) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' && lines:
			dst = append(dst, '\n')
		case r == utf8.RuneError && size == 1, !strconv.IsPrint(r):
			for _, c := range text[:size] {
				dst = fmt.Appendf(dst, `\x%02X`, c)
			}
		default:
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}

// AppendStream appends a line for each frame of stream, one recorded direction of a
// connection, and a last line for a rest that is not a frame.
func (p Printer) AppendStream(dst, stream []byte) []byte {
	for len(stream) > 0 {
		if len(stream) < HeaderSize {
			return fmt.Appendf(dst, "! %d bytes of a header\n", len(stream))
		}
		h, err := ParseHeader(stream)
		if err != nil {
			return fmt.Appendf(dst, "! %v\n", err)
		}
		body := stream[HeaderSize:]
		if uint64(h.BodyLen) > uint64(len(body)) {
			dst = p.AppendLine(dst, h, nil)
			return fmt.Appendf(dst, " ! %d of the body's bytes are missing\n", uint64(h.BodyLen)-uint64(len(body)))
		}
		body = body[:h.BodyLen]
		dst = append(p.AppendLine(dst, h, body), '\n')
		stream = stream[HeaderSize+len(body):]
	}
	return dst
}
