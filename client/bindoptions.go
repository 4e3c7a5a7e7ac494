package client

import (
	"reflect"

	"confcenter/codes"
)

// BindOptions control how a document becomes a T. With the zero value BindWith is
// Bind.
type BindOptions[T any] struct {
	// Defaults returns the value that the document is decoded over: a member missing
	// from the document keeps its default, objects merge at every depth, and an array
	// replaces the default array as a whole. It is called for each new document and
	// must return a new value each time. Nil: the zero T.
	Defaults func() T
	// Optional allows the document to be absent: the value is then that of Defaults,
	// at Bind and whenever the document is deleted.
	Optional bool
	// Strict refuses a document with members that T does not have. It catches
	// misspelt names, but programs must be updated before new members are added.
	// Without it such members are ignored.
	Strict bool
	// Validate, if set, refuses a value by returning an error; (*T).Validate fits.
	// BindWith returns that error. Later the last good value stays and the error goes
	// to Config.OnError, so it should not contain secret values.
	Validate func(*T) error
}

// read decodes a document into a value.
func (o *BindOptions[T]) read(doc *Document) (*T, error) {
	value := new(T)
	if o.Defaults != nil {
		if err := guarded(func() { *value = o.Defaults() }); err != nil {
			return nil, err
		}
	}
	switch {
	case !doc.Exists() && o.Optional:
	case !doc.Exists():
		return nil, doc.absent("")
	default:
		if err := o.decode(doc, value); err != nil {
			return nil, codes.Errorf(codes.BadRequest, "%s does not fit %T: %w", doc.where(""), value, err)
		}
	}
	if o.Validate == nil {
		return value, nil
	}
	var err error
	if p := guarded(func() { err = o.Validate(value) }); p != nil {
		err = p
	}
	if err != nil {
		return nil, codes.Errorf(codes.BadRequest, "%s is not valid: %w", doc.where(""), err)
	}
	return value, nil
}

func (o *BindOptions[T]) decode(doc *Document, value *T) error {
	var defaults []savedSlice
	if o.Defaults != nil {
		defaults = takeSlices(nil, reflect.ValueOf(value).Elem())
	}
	api := decoding
	if o.Strict {
		api = strictly
	}
	if err := decodeBy(api, doc.raw, value); err != nil {
		return err
	}
	for _, s := range defaults {
		if s.field.IsNil() {
			s.field.Set(s.value)
		}
	}
	return nil
}

// savedSlice is a default that was taken out of its field. A decoder reuses the elements
// of a slice that it finds: the document's first element would inherit members from the
// default's first.
type savedSlice struct{ field, value reflect.Value }

func takeSlices(taken []savedSlice, v reflect.Value) []savedSlice {
	switch v.Kind() {
	case reflect.Slice:
		if v.CanSet() && !v.IsNil() {
			taken = append(taken, savedSlice{v, reflect.ValueOf(v.Interface())})
			v.SetZero()
		}
	case reflect.Pointer:
		if !v.IsNil() {
			taken = takeSlices(taken, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				taken = takeSlices(taken, v.Field(i))
			}
		}
	}
	return taken
}
