package op

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	jsoniter "github.com/json-iterator/go"

	"confcenter/access"
	"confcenter/codes"
)

// Operation is one thing that can be asked of a model. Every edge offers it: the wire by a
// command, HTTP by a route, the command line by a verb, the Go client by a method.
//
// Question and answer are structs that are JSON on the way. The tags of their fields say
// what the edges need: `json` the member's name, `doc` what it is in a few words, and of a
// question's field `arg:"1"` and so on that it is the verb's first argument.
type Operation struct {
	Name  string // "claim": the verb, unique in its model; words are joined by "-"
	Right access.Right
	Route string // over HTTP, below the model's root: "POST claim", "GET nodes"
	Doc   string // what it does: "lists the tasks"
	// Named: Right is needed with something, because Things, or the method, decide about each thing that
	// a question names. Else it is needed with everything.
	Named bool
	// Memory: it is answered from memory, and waits for no disk.
	Memory bool
	// Refusals are those that a caller should expect, besides what any question may be refused with.
	Refusals []Refusal

	about            func(question any, things []Thing) []Thing
	method           string // of the model, in Go
	question, answer reflect.Type
	do               func(ctx context.Context, model any, by *access.Actor, question any) (any, error)
}

// Define makes an operation of a method: do answers a question of the model. The caller is by,
// which may be nil; do must not keep the question.
func Define[M, Q, A any](name string, right access.Right, route, doc string, do func(model *M, ctx context.Context, by *access.Actor, q *Q) (*A, error)) Operation {
	return Operation{
		Name: name, Right: right, Route: route, Doc: doc,
		method:   runtime.FuncForPC(reflect.ValueOf(do).Pointer()).Name(),
		question: reflect.TypeFor[Q](), answer: reflect.TypeFor[A](),
		do: func(ctx context.Context, model any, by *access.Actor, question any) (any, error) {
			return do(model.(*M), ctx, by, question.(*Q))
		},
	}
}

// Refusal is why an operation may be refused.
type Refusal struct {
	Code codes.Code
	When string // "the node has a job already"
}

// Refuses is o, which says so of a refusal.
func (o Operation) Refuses(code codes.Code, when string) Operation {
	o.Refusals = append(slices.Clip(o.Refusals), Refusal{code, when})
	return o
}

// ByName is o, which is Named.
func (o Operation) ByName() Operation {
	o.Named = true
	return o
}

// InMemory is o, which Memory suffices for.
func (o Operation) InMemory() Operation {
	o.Memory = true
	return o
}

// holding is the key of a context for what a connection holds.
type holding struct{}

// Holding is ctx for a question that came by a connection, which hold remembers something for.
func Holding(ctx context.Context, hold func(key any, end func())) context.Context {
	return context.WithValue(ctx, holding{}, hold)
}

// OnEnd has end called when the connection ends by which the question of ctx came, at once if it has ended.
// It replaces what there was for key; nil: nothing is held any more. end must not wait. A question that came
// by no connection holds nothing.
func OnEnd(ctx context.Context, key any, end func()) {
	if hold, ok := ctx.Value(holding{}).(func(key any, end func())); ok {
		hold(key, end)
	}
}

// About is o, which is about the things that about appends for a question, a pointer as Ask returns it.
func (o Operation) About(about func(question any, things []Thing) []Thing) Operation {
	o.about = about
	return o
}

// Things appends what a question is about by its names: rights, and namespaces that pay, follow from it.
func (o *Operation) Things(question any, things []Thing) []Thing {
	if o.about == nil {
		return things
	}
	return o.about(question, things)
}

// Method is the name of the model's method.
func (o *Operation) Method() string { return o.method[strings.LastIndexByte(o.method, '.')+1:] }

// Question is the type of the struct that is asked.
func (o *Operation) Question() reflect.Type { return o.question }

// Answer is the type of the struct that is answered.
func (o *Operation) Answer() reflect.Type { return o.answer }

// Writes reports whether it may change something.
func (o *Operation) Writes() bool {
	right := o.Right.String()
	return strings.HasSuffix(right, ":write") || strings.HasSuffix(right, ":grant")
}

// Ask returns a pointer to an empty question.
func (o *Operation) Ask() any { return reflect.New(o.question).Interface() }

// Do asks model, a pointer to what the operation was defined for. question is a pointer as Ask
// returns it, and so is the answer.
func (o *Operation) Do(ctx context.Context, model any, by *access.Actor, question any) (any, error) {
	return o.do(ctx, model, by, question)
}

// Model is a model that is open, and what can be asked of it.
type Model struct {
	Name       string // "flow"
	Operations []Operation
	Asked      any // a pointer to what they are defined for
	// Count counts what its edges are answered; nil counts nothing.
	Count *Count
}

// Count counts the answers of a model, from any goroutine.
type Count struct {
	Writes  atomic.Uint64 // that were done
	refused sync.Map      // *atomic.Uint64 by codes.Code: there are as many as in the program
}

// Refused tells how often the model has refused something with each code.
func (c *Count) Refused() map[codes.Code]uint64 {
	all := map[codes.Code]uint64{codes.Limit: 0} // there from the beginning, to hang alerts on
	c.refused.Range(func(code, n any) bool {
		all[code.(codes.Code)] = n.(*atomic.Uint64).Load()
		return true
	})
	return all
}

func (c *Count) add(o *Operation, err error) {
	switch {
	case c == nil:
	case err != nil:
		n, _ := c.refused.LoadOrStore(codes.Of(err), new(atomic.Uint64))
		n.(*atomic.Uint64).Add(1)
	case o.Writes():
		c.Writes.Add(1)
	}
}

// Used is how much there is of something that a model has a limit of.
type Used struct {
	What     string // "nodes"
	N, Limit int64
}

// User is a model that has such limits.
type User interface {
	Used(ctx context.Context) ([]Used, error)
}

// MaxAnswer is how long an answer may be in JSON, in bytes.
const MaxAnswer = 4 << 20

// writing does not escape the characters of HTML.
var writing = jsoniter.Config{SortMapKeys: true}.Froze()

// Answer asks the model for an operation of its table, and returns the answer as a JSON object.
func (m *Model) Answer(ctx context.Context, o *Operation, by *access.Actor, question any) ([]byte, error) {
	text, err := m.answer(ctx, o, by, question)
	m.Count.add(o, err)
	return text, err
}

func (m *Model) answer(ctx context.Context, o *Operation, by *access.Actor, question any) ([]byte, error) {
	answer, err := o.Do(ctx, m.Asked, by, question)
	if err != nil {
		return nil, err
	}
	fill(reflect.ValueOf(answer).Elem())
	object, err := writing.Marshal(answer)
	switch {
	case err != nil:
		return nil, err
	case len(object) <= MaxAnswer:
		return object, nil
	case o.Writes():
		return nil, codes.Errorf(codes.TooLarge, "it was done, but the answer has %d bytes, and the limit is %d; read what you need in parts", len(object), MaxAnswer)
	}
	return nil, codes.Errorf(codes.TooLarge, "the answer has %d bytes, and the limit is %d; ask for less at a time", len(object), MaxAnswer)
}

// fill makes lists and tables that must be there of those that are nil, which JSON would call
// null.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Struct:
		for _, m := range MembersOf(v.Type()) {
			field := v.FieldByIndex(m.Index)
			switch {
			case m.Form < ListForm:
			case m.Form == ListForm && !m.Optional && field.IsNil():
				field.Set(reflect.MakeSlice(m.Type, 0, 0))
			case m.Form == TableForm && !m.Optional && field.IsNil():
				field.Set(reflect.MakeMap(m.Type))
			case m.Form != TableForm:
				fill(field)
			}
		}
	}
}
