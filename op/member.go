package op

import (
	"encoding"
	"encoding/json" // for the interface by which types say what they are in JSON
	"reflect"
	"strconv"
	"strings"
	"sync"

	"confcenter/internal/jsontext"
)

// Member is a field of a question or an answer, as the edges show it.
type Member struct {
	Name     string // in JSON
	Doc      string
	Arg      int // of a question: which argument of the verb it is, from 1; 0: it is a flag
	Optional bool
	Form     Form
	Type     reflect.Type
	Index    []int // of the field, for reflect.Value.FieldByIndex
}

// known are the members of types, []Member by reflect.Type: there are as many as in the program.
var known sync.Map

// MembersOf are the members of a struct type, in the order of its fields. Those of embedded
// structs are its own. The caller must not change them.
func MembersOf(t reflect.Type) []Member {
	if list, ok := known.Load(t); ok {
		return list.([]Member)
	}
	list, _ := known.LoadOrStore(t, membersOf(t))
	return list.([]Member)
}

func membersOf(t reflect.Type) (list []Member) {
	for _, f := range reflect.VisibleFields(t) {
		tag, own := f.Tag.Lookup("json")
		if !own {
			tag = f.Tag.Get("kv") // a message of a store
		}
		name, rest, _ := strings.Cut(tag, ",")
		if f.Anonymous && (name == "" || !own) || !f.IsExported() || name == "-" {
			continue
		}
		arg, _ := strconv.Atoi(f.Tag.Get("arg"))
		list = append(list, Member{Name: name, Doc: f.Tag.Get("doc"), Arg: arg, Optional: strings.Contains(rest, "omit"), Form: FormOf(f.Type), Type: f.Type, Index: f.Index})
	}
	return list
}

// Form is what values of a type are in JSON.
type Form uint8

// The forms.
const (
	AnyForm    Form = iota + 1 // whatever the type says
	TextForm                   // a string
	WholeForm                  // a number without a fraction
	NumberForm                 // any number
	FlagForm                   // true or false
	ListForm                   // an array
	ObjectForm                 // an object with the members of a struct
	TableForm                  // an object with any members
)

var formNames = [...]string{AnyForm: "any JSON", TextForm: "a string", WholeForm: "a whole number", NumberForm: "a number", FlagForm: "true or false", ListForm: "an array", ObjectForm: "an object", TableForm: "an object"}

func (f Form) String() string { return formNames[f] }

// FormOf is the form of t, or of what t points to.
func FormOf(t reflect.Type) Form {
	if t.Kind() == reflect.Pointer {
		return FormOf(t.Elem())
	}
	switch zero := reflect.New(t).Interface().(type) {
	case json.Marshaler:
		return formOfText(zero)
	case encoding.TextMarshaler:
		return TextForm
	}
	switch t.Kind() {
	case reflect.String:
		return TextForm
	case reflect.Bool:
		return FlagForm
	case reflect.Int, reflect.Int32, reflect.Int64:
		return WholeForm
	case reflect.Float64:
		return NumberForm
	case reflect.Slice:
		return ListForm
	case reflect.Map:
		return TableForm
	case reflect.Struct:
		return ObjectForm
	}
	panic("op: " + t.String() + " has no form in JSON")
}

// formOfText is the form of what writes itself: that of its zero value.
func formOfText(zero json.Marshaler) Form {
	text, err := zero.MarshalJSON()
	if err != nil {
		return AnyForm
	}
	switch jsontext.KindOf(text) {
	case jsontext.String:
		return TextForm
	case jsontext.Number:
		return WholeForm
	}
	return AnyForm
}
