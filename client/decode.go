package client

import (
	"bytes"
	"encoding/json" // for what its errors say, see misfit
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsoniter "github.com/json-iterator/go"
)

// decoding follows encoding/json, but leaves numbers their text where the
// target says nothing about their type.
var decoding = jsoniter.Config{UseNumber: true}.Froze()

// strictly is decoding that refuses members the target does not know.
var strictly = jsoniter.Config{UseNumber: true, DisallowUnknownFields: true}.Froze()

// decodeInto decodes raw into v. What is decoded may be a secret and errors end in
// logs, so the error tells types and places and nothing of the contents.
func decodeInto(raw []byte, v any) error { return decodeBy(decoding, raw, v) }

func decodeBy(api jsoniter.API, raw []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	if api.Unmarshal(raw, v) == nil {
		return nil
	}
	target := reflect.TypeOf(v)
	if target == nil || target.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
		return fmt.Errorf("%T is not a pointer to decode into", v)
	}
	return misfit(raw, reflect.New(target.Elem()).Interface(), api == strictly)
}

// misfit says why raw does not fit v. The library that decodes quotes the contents;
// the standard one names what it needs.
func misfit(raw []byte, v any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if strict {
		d.DisallowUnknownFields()
	}
	err := d.Decode(v)
	var member string
	unknown := err != nil && strict
	if unknown {
		member, unknown = strings.CutPrefix(err.Error(), "json: unknown field ")
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		found, _, _ := strings.Cut(mismatch.Value, " ") // of a number, its text follows
		where := ""
		if mismatch.Field != "" {
			where = mismatch.Field + ": "
		}
		return fmt.Errorf("%s%s at offset %d does not fit %v", where, found, mismatch.Offset, mismatch.Type)
	case unknown:
		return fmt.Errorf("unknown member %s", member)
	case err != nil:
		return fmt.Errorf("a type's own decoding failed with a %T", err)
	}
	return errors.New("it has another type")
}
