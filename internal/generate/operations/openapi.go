package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"confcenter/internal/jsontext"
	"confcenter/op"
)

// maxBody is the gateway's default limit of a body.
const maxBody = 8 << 20

// field is a member of an object whose order is kept.
type field struct {
	name  string
	value any
}

// object is a JSON object in a given order.
type object []field

type list = []any

// text is a JSON text of the document as it was.
type text []byte

// appendJSON appends what the document is made of.
func appendJSON(dst []byte, value any) []byte {
	switch v := value.(type) {
	case object:
		dst = append(dst, '{')
		for i, f := range v {
			dst = append(jsontext.AppendQuote(separate(dst, i), f.name), ':')
			dst = appendJSON(dst, f.value)
		}
		return append(dst, '}')
	case list:
		dst = append(dst, '[')
		for i := range v {
			dst = appendJSON(separate(dst, i), v[i])
		}
		return append(dst, ']')
	case text:
		return append(dst, v...)
	case string:
		return jsontext.AppendQuote(dst, v)
	}
	return fmt.Append(dst, value) // a number or a bool
}

func separate(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// openapi replaces what the document has about the models.
func openapi(old []byte, models []op.Model) ([]byte, error) {
	var paths, schemas object
	for i := range models {
		paths = append(paths, pathsOf(&models[i])...)
		for _, t := range objectsOf(&models[i]) {
			schemas = append(schemas, field{models[i].Name + "." + t.Name(), objectSchema(&models[i], t)})
		}
	}
	of := func(f field) bool {
		return slices.ContainsFunc(models, func(m op.Model) bool {
			return strings.HasPrefix(f.name, "/v1/"+m.Name+"/") || strings.HasPrefix(f.name, m.Name+".")
		})
	}
	replaced := edit(old, func(all object) object { return append(slices.DeleteFunc(all, of), paths...) }, "paths")
	replaced = edit(replaced, func(all object) object { return append(slices.DeleteFunc(all, of), schemas...) }, "components", "schemas")
	return append(jsontext.AppendIndent(nil, replaced, " "), '\n'), nil
}

// members takes an object apart.
func members(raw text) (all object) {
	jsontext.EachMember(raw, func(key, raw []byte, _ jsontext.Kind) bool {
		all = append(all, field{string(key), text(raw)})
		return true
	})
	return all
}

// of is a member as it was in the document.
func (o object) of(name string) text { return o[indexOf(o, name)].value.(text) }

// with has another value for a member, or one more.
func (o object) with(name string, value any) object {
	if at := indexOf(o, name); at >= 0 {
		o[at].value = value
		return o
	}
	return append(o, field{name, value})
}

// edit changes one object in the document.
func edit(document text, change func(object) object, path ...string) text {
	all := members(document)
	if len(path) == 0 {
		all = change(all)
	} else {
		all = all.with(path[0], edit(all.of(path[0]), change, path[1:]...))
	}
	return appendJSON(nil, all)
}

// pathsOf are the paths of a model, in the order of its table.
func pathsOf(m *op.Model) (paths object) {
	for i := range m.Operations {
		o := &m.Operations[i]
		method, path, _ := strings.Cut(o.Route, " ")
		path = "/v1/" + m.Name + "/" + path
		described := field{strings.ToLower(method), operation(m, o)}
		if at := indexOf(paths, path); at >= 0 {
			paths[at].value = append(paths[at].value.(object), described)
		} else {
			paths = append(paths, field{path, object{described}})
		}
	}
	return paths
}

func indexOf(all object, name string) int {
	return slices.IndexFunc(all, func(f field) bool { return f.name == name })
}

func ref(to string) object { return object{{"$ref", "#/components/" + to}} }

func content(schema object) object {
	return object{{"application/json", object{{"schema", schema}}}}
}

func operation(m *op.Model, o *op.Operation) object {
	out := object{{"operationId", m.Name + "." + o.Name}, {"tags", list{m.Name}}, {"summary", strings.ToUpper(o.Doc[:1]) + o.Doc[1:]}}
	responses := object{{"200", object{{"description", "done"}, {"content", content(objectSchema(m, o.Answer()))}}}}
	if strings.HasPrefix(o.Route, "POST ") {
		out = append(out, field{"requestBody", object{{"required", false}, {"content", content(objectSchema(m, o.Question()))}}}, field{"x-max-body", maxBody})
		responses = append(responses, field{"413", ref("responses/TooLarge")})
	} else if parameters := parametersOf(m, o.Question()); len(parameters) > 0 {
		out = append(out, field{"parameters", parameters})
	}
	reasons := map[int][]string{}
	for _, r := range o.Refusals {
		status := r.Code.HTTPStatus()
		reasons[status] = append(reasons[status], r.Code.Name()+": "+r.When)
	}
	for _, status := range slices.Sorted(maps.Keys(reasons)) {
		described := object{{"description", strings.Join(reasons[status], "; or ")}, {"content", content(ref("schemas/Error"))}}
		responses = append(responses, field{strconv.Itoa(status), described})
	}
	return append(out, field{"responses", append(responses, field{"default", ref("responses/Error")})})
}

func parametersOf(m *op.Model, t reflect.Type) (all list) {
	for _, member := range op.MembersOf(t) {
		all = append(all, object{
			{"name", member.Name}, {"in", "query"}, {"description", member.Doc}, {"required", false}, {"schema", schema(m, member.Type)}, {"example", example(member.Type)},
		})
	}
	return all
}

// example is a value that a parameter may have.
func example(t reflect.Type) any {
	switch form := op.FormOf(t); {
	case form == op.WholeForm || form == op.NumberForm:
		return 1
	case form == op.FlagForm:
		return true
	case form == op.ListForm:
		return example(t.Elem())
	case choices(t) != nil:
		return choices(t)[0]
	}
	return "x"
}

// choices are the values of an enumeration, nil for any other type.
func choices(t reflect.Type) []string {
	if names, ok := reflect.New(t).Interface().(interface{ Names() []string }); ok {
		return names.Names()
	}
	return nil
}

func schema(m *op.Model, t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch form := op.FormOf(t); form {
	case op.TextForm:
		out := object{{"type", "string"}}
		if names := choices(t); names != nil {
			all := list{}
			for _, name := range names {
				all = append(all, name)
			}
			out = append(out, field{"enum", all})
		}
		return out
	case op.WholeForm:
		return object{{"type", "integer"}, {"format", "int64"}}
	case op.NumberForm:
		return object{{"type", "number"}}
	case op.FlagForm:
		return object{{"type", "boolean"}}
	case op.ListForm:
		return object{{"type", "array"}, {"items", schema(m, t.Elem())}}
	case op.TableForm:
		return object{{"type", "object"}, {"additionalProperties", schema(m, t.Elem())}}
	case op.ObjectForm:
		return ref(fmt.Sprintf("schemas/%s.%s", m.Name, t.Name()))
	}
	return object{}
}

// objectSchema describes a struct by its members.
func objectSchema(m *op.Model, t reflect.Type) object {
	properties := object{}
	for _, member := range op.MembersOf(t) {
		s := schema(m, member.Type)
		if indexOf(s, "$ref") < 0 && member.Doc != "" {
			s = append(s, field{"description", member.Doc})
		}
		properties = append(properties, field{member.Name, s})
	}
	return object{{"type", "object"}, {"properties", properties}, {"required", list{}}, {"additionalProperties", false}}
}
