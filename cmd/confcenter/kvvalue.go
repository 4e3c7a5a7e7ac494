package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/screen"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/internal/settings"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// valueFlags choose the type of VALUE.
type valueFlags struct {
	kind settings.Choice
	json bool
}

func (f *valueFlags) define(command *cobra.Command) {
	f.kind = settings.Choice{Value: kv.String.String()}
	for t := kv.String; t <= kv.JSON; t++ {
		f.kind.Allowed = append(f.kind.Allowed, t.String())
	}
	chooses(command, &f.kind, "type", "t", "type of VALUE")
	command.Flags().BoolVar(&f.json, "json", false, "the same as --type json")
	command.MarkFlagsMutuallyExclusive("type", "json")
}

func (f *valueFlags) valueType() kv.Type {
	if f.json {
		return kv.JSON
	}
	t, _ := kv.ParseType(f.kind.Value) // one of those allowed
	return t
}

// read makes a value from the argument VALUE: its text, @FILE, or - for standard
// input; a text that begins with @ has one more before it.
func (f *valueFlags) read(a *app, argument string) (kv.Value, error) {
	v := kv.Value{Type: f.valueType(), Data: []byte(argument)}
	var err error
	switch {
	case argument == "-":
		v.Data, err = readUpTo(kv.MaxValue, a.stdin, "standard input")
	case strings.HasPrefix(argument, "@@"):
		v.Data = v.Data[1:]
	case strings.HasPrefix(argument, "@"):
		v.Data, err = readFile(kv.MaxValue, argument[1:])
	}
	if err != nil {
		return v, err
	}
	switch v.Type { // a line end from echo or an editor is not part of a number
	case kv.Int, kv.Double, kv.Bool:
		v.Data = bytes.TrimSuffix(bytes.TrimSuffix(v.Data, []byte("\n")), []byte("\r"))
	}
	if err = v.Check(); codes.Of(err) == codes.BadValue && (v.Type == kv.JSON || v.Type == kv.String) {
		err = errors.New(err.Error()) // no server has refused it: exit code 1, as for every other bad JSON
	}
	return v, err
}

// newEntry is an entry in -o json, null for an absent key.
func newEntry(e *kv.Entry) jsoniter.RawMessage {
	w := kvjson.Writer{Buf: []byte{'['}, Dialect: kvjson.File}
	w.Listed(e, true)
	return w.Buf[1:]
}

func newEntries(list []*kv.Entry) []jsoniter.RawMessage {
	out := make([]jsoniter.RawMessage, len(list))
	for i, e := range list {
		out[i] = newEntry(e)
	}
	return out
}

// printValue prints only the value: for people, or raw, octet by octet.
func (c *connection) printValue(v kv.Value) error {
	text := v.Data
	switch {
	case c.output.Value == formRaw:
		_, err := screen.Raw(c.app.stdout).Write(text)
		return err
	case v.Type == kv.JSON:
		text = jsontext.AppendIndent(nil, v.Data, "    ")
	case v.Type.Octets():
		text = []byte(base64.StdEncoding.EncodeToString(v.Data))
	}
	_, err := c.app.stdout.Write(append(text[:len(text):len(text)], '\n'))
	return err
}

// formRaw is the output format that consists of the value's octets only.
const formRaw = "raw"

// cell is a value as a cell of a table or the end of a line: without line breaks or
// characters that could control a terminal.
func cell(v kv.Value) string {
	switch v.Type {
	case kv.JSON:
		return string(jsontext.AppendCompact(nil, v.Data))
	case kv.Int, kv.Double, kv.Bool:
		return string(v.Data)
	case kv.Bytes, kv.Removed:
		return base64.StdEncoding.EncodeToString(v.Data)
	}
	return string(jsontext.AppendQuote(nil, string(v.Data)))
}

// brief is cell, cut for a table.
func brief(v kv.Value) string { return shortened(cell(v)) }

func shortened(text string) string {
	const shown = 60
	if len(text) <= shown {
		return text
	}
	return strings.ToValidUTF8(text[:shown], "") + "…"
}

// ends tells when an entry expires.
func ends(e *kv.Entry) string {
	switch {
	case e.Lease != 0:
		return "lease " + strconv.FormatInt(int64(e.Lease), 10)
	case e.Expires != 0:
		return moment(e.Expires)
	}
	return "-"
}

func moment(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
