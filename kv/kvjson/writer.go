package kvjson

import (
	"strconv"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Writer appends a message to Buf. The zero Writer writes in the wire's dialect.
type Writer struct {
	Buf     []byte
	Dialect Dialect
	Octets  bool // Wire: values of type bytes follow the JSON
	OneLine bool // HTTP: json values in compact form

	tail [][]byte // the octets, in the order of the JSON
}

// End closes the message's object and appends the octets.
func (w *Writer) End() []byte {
	w.Buf = append(w.Buf, '}')
	for _, octets := range w.tail {
		w.Buf = append(w.Buf, octets...)
	}
	return w.Buf
}

// Open starts a member that is an object or an array.
func (w *Writer) Open(f Field, bracket byte) { w.Buf = append(appendField(w.Buf, f), bracket) }

// Close ends what Open or Element started.
func (w *Writer) Close(bracket byte) { w.Buf = append(w.Buf, bracket) }

// Comma appends a comma if needed.
func (w *Writer) Comma() {
	if last := w.Buf[len(w.Buf)-1]; last != '{' && last != '[' {
		w.Buf = append(w.Buf, ',')
	}
}

// Element starts an object in an array.
func (w *Writer) Element() {
	w.Comma()
	w.Buf = append(w.Buf, '{')
}

// NullElement appends an element that is null.
func (w *Writer) NullElement() {
	w.Comma()
	w.Buf = append(w.Buf, "null"...)
}

// Number appends a number.
func (w *Writer) Number(f Field, n int64) { w.Buf = strconv.AppendInt(appendField(w.Buf, f), n, 10) }

// Given appends a number unless it is 0, which counts as absent.
func (w *Writer) Given(f Field, n int64) {
	if n != 0 {
		w.Number(f, n)
	}
}

// Text appends a string.
func (w *Writer) Text(f Field, s string) { w.Buf = jsontext.AppendQuote(appendField(w.Buf, f), s) }

// TextGiven appends a string unless it is empty, which counts as absent.
func (w *Writer) TextGiven(f Field, s string) {
	if s != "" {
		w.Text(f, s)
	}
}

// Verbatim appends a value that is JSON.
func (w *Writer) Verbatim(f Field, text []byte) { w.Buf = append(appendField(w.Buf, f), text...) }

// Null appends a member that is null.
func (w *Writer) Null(f Field) { w.Buf = append(appendField(w.Buf, f), "null"...) }

// Flag appends a flag if it is set.
func (w *Writer) Flag(f Field, set bool) {
	switch {
	case !set:
	case w.Dialect == Wire:
		w.Buf = append(appendField(w.Buf, f), '1')
	default:
		w.Bool(f, true)
	}
}

// Bool appends true or false.
func (w *Writer) Bool(f Field, is bool) { w.Buf = strconv.AppendBool(appendField(w.Buf, f), is) }

// Value appends type and value. A value without a type is a text of any type.
func (w *Writer) Value(v kv.Value) {
	if v.Type != 0 {
		w.typ(v.Type)
	}
	if v.Type == kv.Bytes && w.Octets {
		w.Number(Raw, int64(len(v.Data)))
		if len(v.Data) > 0 {
			w.tail = append(w.tail, v.Data)
		}
		return
	}
	w.Buf = appendField(w.Buf, Value)
	switch {
	case w.Dialect == File:
		w.Buf = appendPlain(w.Buf, v)
	case w.OneLine && v.Type == kv.JSON:
		w.Buf = jsontext.AppendCompact(w.Buf, v.Data)
	default:
		w.Buf = AppendValue(w.Buf, v)
	}
}

func (w *Writer) typ(t kv.Type) {
	w.Buf = append(append(append(appendField(w.Buf, Type), '"'), t.String()...), '"')
}

// Namespace appends an element that is a namespace.
func (w *Writer) Namespace(ns *kv.Namespace) {
	w.Element()
	name := Name
	if w.Dialect == Wire {
		name = NS
	}
	w.Text(name, ns.Name)
	w.Number(Keys, ns.Keys)
	w.Number(Bytes, ns.Bytes)
	w.Close('}')
}
