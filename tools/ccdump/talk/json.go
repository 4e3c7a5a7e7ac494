package talk

import (
	"encoding/json" // which, other than json-iterator, checks and escapes the bodies among its values
	"strconv"
	"time"

	"confcenter/internal/jsontext"
	"confcenter/tools/ccdump/stream"
)

// JSON prints each line as an object, for programs.
type JSON struct {
	// Bodies says whether bodies are printed.
	Bodies bool
}

// printed is a line as JSON. Absent values are left out.
//
// wide: a message.
type printed struct {
	Time    string          `json:"time"`
	Conn    int             `json:"conn"`
	Client  string          `json:"client"`
	Server  string          `json:"server"`
	Name    string          `json:"svrname,omitempty"`
	ID      int32           `json:"svrid,omitempty"`
	From    string          `json:"from"`
	Command string          `json:"command,omitempty"`
	Seq     *uint16         `json:"seq,omitempty"`
	Size    *uint32         `json:"size,omitempty"`
	Offset  *int64          `json:"offset,omitempty"`
	Code    *int32          `json:"code,omitempty"`
	Latency *float64        `json:"latency_us,omitempty"`
	Subject string          `json:"subject,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Text    string          `json:"text,omitempty"` // of a body that is no JSON
	Raw     int             `json:"raw,omitempty"`  // octets behind the JSON
	Kept    *int            `json:"kept,omitempty"` // bytes of a body that is not whole
	Remark  string          `json:"remark,omitempty"`
	Odd     bool            `json:"odd,omitempty"`
}

func dirName(d stream.Dir) string {
	if d == stream.FromClient {
		return "client"
	}
	return "server"
}

// Append appends l and a line feed.
func (j *JSON) Append(dst []byte, l *Line) []byte {
	p := printed{
		Time: time.Unix(0, l.At).UTC().Format(time.RFC3339Nano), Conn: l.Conn.ID,
		Client: l.Conn.Endpoint(stream.FromClient).String(), Server: l.Conn.Endpoint(stream.FromServer).String(),
		Name: l.Name, ID: l.ID, From: dirName(l.From), Subject: l.Subject, Remark: l.Remark, Odd: l.Odd,
	}
	if f := l.Frame; f != nil {
		p.Command, p.Seq, p.Size, p.Offset = f.Command.String(), &f.Seq, &f.BodyLen, &f.Offset
		if j.Bodies {
			p.body(f, l.Body)
		}
		if l.HasCode {
			p.Code = &l.Code
		}
		if l.Answered {
			us := float64(l.Latency) / 1e3
			p.Latency = &us
		}
	}
	b, _ := json.Marshal(p) // which cannot fail: the body was checked
	return append(append(dst, b...), '\n')
}

func (p *printed) body(f *stream.Frame, b []byte) {
	if !f.Whole() {
		n := len(f.Body)
		p.Kept = &n
	}
	if len(b) == 0 {
		return
	}
	if f.Command.IsState() {
		if _, kind, end, err := jsontext.ScanPrefix(nil, b); err == nil && kind == jsontext.Object {
			p.Raw, b = len(b)-end, b[:end]
		}
	}
	if _, err := jsontext.Check(b); err == nil {
		p.Body = jsontext.AppendCompact(nil, b)
		return
	}
	q := strconv.QuoteToGraphic(string(b))
	p.Text = q[1 : len(q)-1]
}
