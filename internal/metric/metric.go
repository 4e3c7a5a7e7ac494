// Package metric is the one vocabulary of the program's numbers. A package that counts
// declares a name and a help text once, beside the field that counts; statistics,
// /metrics, /v1/status and its samples read all of them by name.
package metric

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
)

// Label tells a reading from others of its name.
type Label struct{ Name, Value string }

// Reading is one number at one moment.
type Reading struct {
	Name   string // without the program's prefix; ending in _total it only rises
	Help   string
	Labels []Label
	N      int64  // of a histogram: 0
	Times  *Times // of a histogram, else nil
}

// Readings are those of one part of the program or of several.
type Readings []Reading

// Of reads the fields of the struct at p that have a tag `metric:"name"`: integers,
// and those of sync/atomic, which must be exported. `help` explains the name, once
// for fields that share it; `label:"limit=idle"` tells them apart.
func Of(p any) Readings {
	v := reflect.ValueOf(p).Elem()
	var list Readings
	helps := map[string]string{}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name := tag.Get("metric")
		if name == "" {
			continue
		}
		if help := tag.Get("help"); help != "" {
			helps[name] = help
		}
		r := Reading{Name: name, Help: helps[name], N: number(v.Field(i))}
		if label, value, is := strings.Cut(tag.Get("label"), "="); is {
			r.Labels = []Label{{label, value}}
		}
		list = append(list, r)
	}
	return list
}

func number(v reflect.Value) int64 {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	}
	switch n := v.Addr().Interface().(type) {
	case *atomic.Uint64:
		return int64(n.Load())
	case *atomic.Int64:
		return n.Load()
	}
	panic("metric: " + v.Type().String() + " is no number")
}

// Get is the sum of all readings of a name that have the given labels' values. It
// panics if there are none: the name is misspelt, and 0 would hide it.
func (list Readings) Get(name string, values ...string) (sum int64) {
	found := false
	for i := range list {
		if r := &list[i]; r.Name == name && r.has(values) {
			sum, found = sum+r.N, true
		}
	}
	if !found {
		panic(fmt.Sprintf("metric: there is no %s%q", name, values))
	}
	return sum
}

func (r *Reading) has(values []string) bool {
	for _, value := range values {
		if !slices.ContainsFunc(r.Labels, func(l Label) bool { return l.Value == value }) {
			return false
		}
	}
	return true
}

// Fill sets the integer fields of the struct at p that have a tag `metric:"name"` to
// what was read under that name. What was not read stays as it is.
func (list Readings) Fill(p any) {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("metric")
		if name != "" && slices.ContainsFunc(list, func(r Reading) bool { return r.Name == name }) {
			v.Field(i).SetInt(list.Get(name))
		}
	}
}
