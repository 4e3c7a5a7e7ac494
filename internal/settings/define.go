package settings

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Define gives flags one for each field of a struct, to which to points, that has the tag flag: its name and,
// behind a comma, a letter. The tag doc is what help says, and default what it is unless that is zero. Fields
// that are structs are gone into.
func Define(flags *pflag.FlagSet, to any) { define(flags, reflect.ValueOf(to).Elem()) }

func define(flags *pflag.FlagSet, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, letter, _ := strings.Cut(field.Tag.Get("flag"), ",")
		switch {
		case name == "" && field.Type.Kind() == reflect.Struct:
			define(flags, v.Field(i))
		case name != "":
			defineOne(flags, v.Field(i).Addr().Interface(), name, letter, field.Tag.Get("doc"))
			if text, has := field.Tag.Lookup("default"); has {
				f := flags.Lookup(name)
				if err := f.Value.Set(text); err != nil {
					panic(fmt.Sprintf("the default of --%s: %v", name, err))
				}
				f.DefValue = f.Value.String()
			}
		}
	}
}

func defineOne(flags *pflag.FlagSet, to any, name, letter, doc string) {
	switch to := to.(type) {
	case pflag.Value:
		flags.VarP(to, name, letter, doc)
	case *bool:
		flags.BoolVarP(to, name, letter, *to, doc)
	case *int:
		flags.IntVarP(to, name, letter, *to, doc)
	case *int64:
		flags.Int64VarP(to, name, letter, *to, doc)
	case *uint:
		flags.UintVarP(to, name, letter, *to, doc)
	case *string:
		flags.StringVarP(to, name, letter, *to, doc)
	case *[]string:
		flags.StringArrayVarP(to, name, letter, *to, doc)
	case *time.Duration:
		flags.DurationVarP(to, name, letter, *to, doc)
	default:
		panic(fmt.Sprintf("--%s is %T, which no flag is", name, to))
	}
}
