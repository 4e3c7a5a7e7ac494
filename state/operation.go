package state

import (
	"context"
	"reflect"

	"confcenter/access"
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
	Doc   string // one sentence: what it does

	question, answer reflect.Type
	do               func(ctx context.Context, model any, by *access.Actor, question any) (any, error)
}

// Define makes an operation of a method: do answers a question of the model. Whoever asks is
// by, which may be nil; do must not keep the question.
func Define[M, Q, A any](name string, right access.Right, route, doc string, do func(model *M, ctx context.Context, by *access.Actor, q *Q) (*A, error)) Operation {
	return Operation{
		Name: name, Right: right, Route: route, Doc: doc,
		question: reflect.TypeFor[Q](), answer: reflect.TypeFor[A](),
		do: func(ctx context.Context, model any, by *access.Actor, question any) (any, error) {
			return do(model.(*M), ctx, by, question.(*Q))
		},
	}
}

// Question is the type of the struct that is asked.
func (o *Operation) Question() reflect.Type { return o.question }

// Answer is the type of the struct that is answered.
func (o *Operation) Answer() reflect.Type { return o.answer }

// Ask returns a pointer to an empty question.
func (o *Operation) Ask() any { return reflect.New(o.question).Interface() }

// Do asks model, a pointer to what the operation was defined for. question is a pointer as Ask
// returns it, and so is the answer.
func (o *Operation) Do(ctx context.Context, model any, by *access.Actor, question any) (any, error) {
	return o.do(ctx, model, by, question)
}
