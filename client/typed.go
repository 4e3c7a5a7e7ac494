package client

import (
	"context"
	"encoding/json" // for the name of RawMessage, which users have
	"fmt"
	"reflect"

	"confcenter/codes"
	"confcenter/kv"
)

// Get reads a key as a T and returns the revision that last changed it, for IfMod. T
// decides the type that the value must have: a string, integer, float or bool type
// requires a string, int, double (or int) or bool; []byte requires bytes;
// json.RawMessage and all other types require a json, decoded as by GetJSON.
//
// The error is codes.NotFound if the key is absent, with revision 0 as IfMod expects
// it; codes.WrongType if the value has another type; codes.BadRequest if it does not
// fit T.
func Get[T any](ctx context.Context, s *KV, key string) (T, kv.Revision, error) {
	var v T
	e, err := s.Get(ctx, key)
	if err != nil {
		return v, 0, err
	}
	if err := fill(reflect.ValueOf(&v).Elem(), e.Value); err != nil {
		var zero T
		return zero, e.Mod, fmt.Errorf("get %s of %s: %w", key, s.ns, err)
	}
	return v, e.Mod, nil
}

// Put writes v as the type of value that Get reads a T from, and returns the revision
// of the write. The error is codes.BadRequest if v has no such value.
func Put[T any](ctx context.Context, s *KV, key string, v T, opts ...Option) (kv.Revision, error) {
	value, err := valueOf(reflect.ValueOf(&v).Elem())
	if err != nil {
		return 0, fmt.Errorf("put %s of %s: %w", key, s.ns, err)
	}
	w, err := s.Put(ctx, key, value, opts...)
	return w.Revision, err
}

func typeFor(t reflect.Type) kv.Type {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return kv.JSON
	case t.Kind() == reflect.String:
		return kv.String
	case t.Kind() == reflect.Bool:
		return kv.Bool
	case reflect.Zero(t).CanInt(), reflect.Zero(t).CanUint():
		return kv.Int
	case reflect.Zero(t).CanFloat():
		return kv.Double
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return kv.Bytes
	}
	return kv.JSON
}

func valueOf(v reflect.Value) (kv.Value, error) {
	switch typeFor(v.Type()) {
	case kv.String:
		return kv.StringValue(v.String()), nil
	case kv.Bool:
		return kv.BoolValue(v.Bool()), nil
	case kv.Double:
		return kv.DoubleValue(v.Float()), nil
	case kv.Bytes:
		return kv.BytesValue(v.Bytes()), nil
	case kv.Int:
		if v.CanInt() {
			return kv.IntValue(v.Int()), nil
		}
		n := int64(v.Uint())
		if n < 0 {
			return kv.Value{}, codes.Errorf(codes.BadRequest, "the %v does not fit an int of the store, which has 63 bits", v.Type())
		}
		return kv.IntValue(n), nil
	}
	text, err := decoding.Marshal(v.Interface())
	if err != nil {
		return kv.Value{}, codes.Errorf(codes.BadRequest, "%v cannot be encoded as JSON: %w", v.Type(), err)
	}
	return kv.JSONValue(text), nil
}

// fill sets v to value, which must have the type for v's Go type.
func fill(v reflect.Value, value kv.Value) error {
	switch typeFor(v.Type()) {
	case kv.String:
		text, err := stringOf(value)
		v.SetString(text)
		return err
	case kv.Bool:
		b, err := value.Bool()
		v.SetBool(b)
		return err
	case kv.Bytes:
		b, err := bytesOf(value)
		v.SetBytes(b)
		return err
	case kv.Double:
		f, err := value.Double()
		if err == nil && v.OverflowFloat(f) {
			err = misfits(v)
		}
		v.SetFloat(f)
		return err
	case kv.Int:
		n, err := value.Int()
		switch {
		case err != nil:
			return err
		case v.CanInt() && !v.OverflowInt(n):
			v.SetInt(n)
		case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
			v.SetUint(uint64(n))
		default:
			return misfits(v)
		}
		return nil
	}
	return decodeJSON(value, v.Addr().Interface())
}

func misfits(v reflect.Value) error {
	return codes.Errorf(codes.BadRequest, "the value does not fit %v", v.Type())
}
