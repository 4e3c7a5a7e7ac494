package kvverbs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
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
	verb.Chooses(command, &f.kind, "type", "t", "type of VALUE")
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

// read makes a value from the argument VALUE, as readArgument reads it.
func (f *valueFlags) read(a *verb.App, argument string) (kv.Value, error) {
	data, err := a.ReadArgument(argument)
	v := kv.Value{Type: f.valueType(), Data: data}
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

// PrintValue prints only the value: for people, or raw, octet by octet.
func PrintValue(c *verb.Connection, v kv.Value) error {
	text := v.Data
	switch {
	case c.Output.Value == FormRaw:
		_, err := screen.Raw(c.Stdout).Write(text)
		return err
	case v.Type == kv.JSON:
		text = jsontext.AppendIndent(nil, v.Data, "    ")
	case v.Type.Octets():
		text = []byte(base64.StdEncoding.EncodeToString(v.Data))
	}
	_, err := c.Stdout.Write(append(text[:len(text):len(text)], '\n'))
	return err
}

// FormRaw is the form of output, beside text and JSON, that is the octets of the value and nothing else.
const FormRaw = "raw"

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

// Brief is a value as a cell of a table, cut to what there is room for.
func Brief(v kv.Value) string { return screen.Shortened(cell(v)) }

// ends tells when an entry expires.
func ends(e *kv.Entry) string {
	if e.Lease != 0 {
		return fmt.Sprint("lease ", e.Lease)
	}
	return screen.Moment(e.Expires)
}
