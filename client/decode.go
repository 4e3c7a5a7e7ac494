package client

import (
	"bytes"
	"cmp"
	"encoding/json" // for what its errors say, see misfit
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsoniter "github.com/json-iterator/go"

	"confcenter/client/internal/callback"
)

// decoding follows encoding/json, but keeps the text of numbers where the target does
// not determine their type.
var decoding = jsoniter.Config{UseNumber: true}.Froze()

// strictly is decoding that refuses members which the target does not have.
var strictly = jsoniter.Config{UseNumber: true, DisallowUnknownFields: true}.Froze()

// decodeInto decodes raw into v. The contents may be secret and errors end up in logs,
// so the error names types and places only.
func decodeInto(raw []byte, v any) error { return decodeBy(decoding, raw, v) }

func decodeBy(api jsoniter.API, raw []byte, v any) (err error) {
	panicked := callback.Guarded(func() {
		if api.Unmarshal(raw, v) != nil {
			err = misfit(raw, v, api == strictly)
		}
	})
	return cmp.Or(panicked, err)
}

// misfit explains why raw does not fit v. It decodes again with the standard library,
// because errors of the other library quote the contents.
func misfit(raw []byte, v any, strict bool) error {
	target := reflect.TypeOf(v)
	if target == nil || target.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
		return fmt.Errorf("%T is not a pointer to decode into", v)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if strict {
		d.DisallowUnknownFields()
	}
	err := d.Decode(reflect.New(target.Elem()).Interface())
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
