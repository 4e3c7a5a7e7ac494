package main

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/op"
	"confcenter/protocol"
)

// codesPath is the page of the error codes.
const codesPath = "docs/reference/codes.md"

// codeTable is that page.
func codeTable() []byte {
	var out bytes.Buffer
	out.WriteString("<!-- written by go generate ./internal/generate/operations -->\n\n# Error codes\n\n")
	out.WriteString("They are the same over TCP and HTTP, in the Go client and on the command line. [PROTOCOL.md](../../PROTOCOL.md#errors) says what some of them mean for single commands.\n\n")
	out.WriteString("| code | name | HTTP | meaning |\n|---|---|---|---|\n")
	for _, row := range codes.All() {
		fmt.Fprintf(&out, "| %d | %s | %d | %s |\n", int(row.Code), row.Name, row.HTTPStatus, row.Text)
	}
	return out.Bytes()
}

// commandsPath is the page of the commands that are no model's.
const commandsPath = "docs/reference/commands.md"

// commandTable is the page of the commands that are no model's.
func commandTable(models []op.Model) []byte {
	ofModels := map[protocol.Command]bool{}
	for i := range models {
		for place := range models[i].Operations {
			ofModels[row(&models[i], place).ID] = true
		}
	}
	var out bytes.Buffer
	out.WriteString("<!-- written by go generate ./internal/generate/operations -->\n\n# Commands\n\n")
	out.WriteString("What the columns mean and what each command does is in [PROTOCOL.md](../../PROTOCOL.md#commands); those of models have [pages of their own](../../PROTOCOL.md#commands-of-models).\n")
	writeRows(&out, slices.DeleteFunc(slices.Clone(protocol.Commands), func(r protocol.Row) bool { return ofModels[r.ID] }))
	return out.Bytes()
}

func writeRows(out *bytes.Buffer, rows []protocol.Row) {
	yes := map[bool]string{true: "yes", false: "–"}
	out.WriteString("\n| id | name | role | limit | early | right | push | request | reply |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(out, "| 0x%04X | %s | %s | %d MiB | %s | %s | %s | %s | %s |\n", uint16(r.ID), r.Name, r.Role, r.MaxBody>>20, yes[r.Anonymous], r.Right, yes[r.Push], dash(r.Request), dash(r.Response))
	}
}

// referencePath is the page of a model in the reference.
func referencePath(m *op.Model) string { return "docs/reference/" + m.Name + ".md" }

// reference is the page of a model: what can be asked of it over TCP.
func reference(m *op.Model) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<!-- written by go generate ./internal/generate/operations -->\n\n# %s: its commands\n\n", strings.ToUpper(m.Name[:1])+m.Name[1:])
	out.WriteString("Requests and replies are as [PROTOCOL.md](../../PROTOCOL.md#commands-of-models) says of all commands of models.\n")
	rows := make([]protocol.Row, len(m.Operations))
	for place := range rows {
		rows[place] = row(m, place)
	}
	writeRows(&out, rows)
	for place, r := range rows {
		o := &m.Operations[place]
		fmt.Fprintf(&out, "\n## %s 0x%04X\n\n%s%s.\n", r.Name, uint16(r.ID), strings.ToUpper(o.Doc[:1]), o.Doc[1:])
		memberTable(&out, "request", o.Question())
		memberTable(&out, "reply", o.Answer())
		refusalTable(&out, o.Refusals)
	}
	for i, t := range objectsOf(m) {
		if i == 0 {
			out.WriteString("\n## Objects\n")
		}
		memberTable(&out, "**"+t.Name()+"**", t)
	}
	return out.Bytes()
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func memberTable(out *bytes.Buffer, what string, t reflect.Type) {
	members := op.MembersOf(t)
	if len(members) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| %s | type | |\n|---|---|---|\n", what)
	for _, m := range members {
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", m.Name, typeText(m.Type), strings.ReplaceAll(m.Doc, "|", "\\|"))
	}
}

func refusalTable(out *bytes.Buffer, list []op.Refusal) {
	if len(list) == 0 {
		return
	}
	out.WriteString("\n| refused with | when |\n|---|---|\n")
	for _, r := range list {
		fmt.Fprintf(out, "| %d %s | %s |\n", int(r.Code), r.Code.Name(), strings.ReplaceAll(r.When, "|", "\\|"))
	}
}

// typeText is a type as the reference names it.
func typeText(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch op.FormOf(t) {
	case op.TextForm:
		return "string"
	case op.WholeForm:
		return "integer"
	case op.NumberForm:
		return "number"
	case op.FlagForm:
		return "boolean"
	case op.ListForm:
		return "array of " + typeText(t.Elem())
	case op.TableForm:
		return "object of " + typeText(t.Elem())
	case op.ObjectForm:
		return t.Name()
	}
	return "any"
}

// objectsOf are the structs in the questions and answers of a model, in the order in which they
// are met.
func objectsOf(m *op.Model) (list []reflect.Type) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type, top bool)
	walk = func(t reflect.Type, top bool) {
		switch form := op.FormOf(t); {
		case t.Kind() == reflect.Pointer:
			walk(t.Elem(), top)
		case form == op.ListForm || form == op.TableForm:
			walk(t.Elem(), false)
		case form == op.ObjectForm && !seen[t]:
			if !top {
				seen[t] = true
				list = append(list, t)
			}
			for _, member := range op.MembersOf(t) {
				walk(member.Type, false)
			}
		}
	}
	for i := range m.Operations {
		walk(m.Operations[i].Question(), true)
		walk(m.Operations[i].Answer(), true)
	}
	return list
}
