package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"confcenter/access/token"
	"confcenter/client"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/internal/settings"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
	"confcenter/protocol"
)

// special is what a verb has that does not follow from the table.
type special struct {
	example string
	long    bool // it may change or read very much
	define  func(command *cobra.Command)
	before  func(q *asked) // called before it is asked
	// instead does something else than ask the question, if it is true.
	instead func(ctx context.Context, command *cobra.Command, q *asked) (bool, error)
	show    func(a *verb.App, answer any) error       // prints an answer as text
	follow  func(ctx context.Context, q *asked) error // goes on after the first answer
}

// asked is a question to a server, and its answer once there is one.
type asked struct {
	*verb.Connection
	connected        *client.Client
	question, answer any
	ask, print       func() error
}

// again asks once more, and prints the answer.
func (q *asked) again() error {
	if err := q.ask(); err != nil {
		return err
	}
	return q.print()
}

// modelCommand makes group the verbs for a model of a cluster's state: one for each operation of
// its table.
func modelCommand(a *verb.App, group *cobra.Command, operations []op.Operation, specials map[string]special) *cobra.Command {
	verbs := make([]*cobra.Command, len(operations))
	for place := range operations {
		o := &operations[place]
		verbs[place] = operationCommand(a, o, protocol.OfModel(group.Use, place), specials[o.Name])
	}
	return verb.Grouped(group, fmt.Sprintf("%s needs a verb; confcenter %[1]s --help lists them", group.Use), verbs...)
}

// operationCommand is the verb for one operation.
func operationCommand(a *verb.App, o *op.Operation, cmd protocol.Command, more special) *cobra.Command {
	question := o.Ask()
	command := &cobra.Command{Short: strings.ToUpper(o.Doc[:1]) + o.Doc[1:], Example: more.example}
	words := defineWords(a, command, o, question)
	c := a.Connect(command)
	if more.long {
		c.WaitLong(command)
	}
	if more.define != nil {
		more.define(command)
	}
	if more.show == nil {
		more.show = showAnswer
	}
	return c.Asks(command, func(ctx context.Context, connected *client.Client, args []string) error {
		for i, arg := range args {
			w := words[min(i, len(words)-1)]
			if err := w.Set(arg); err != nil {
				return verb.Usagef("%s: %w", strings.ToUpper(w.member.Name), err)
			}
		}
		if author := command.Flags().Lookup(authorFlag); author != nil && o.Writes() && !author.Changed {
			if err := author.Value.Set(signed("")); err != nil {
				return err
			}
		}
		q := &asked{Connection: c, connected: connected, question: question}
		q.ask = func() error {
			q.answer = reflect.New(o.Answer()).Interface()
			return connected.Call(ctx, cmd, o.Writes(), question, q.answer)
		}
		q.print = func() error { return c.Show(q.answer, func() error { return more.show(a, q.answer) }) }
		if more.instead != nil {
			if done, err := more.instead(ctx, command, q); done || err != nil {
				return err
			}
		}
		if more.before != nil {
			more.before(q)
		}
		err := q.again()
		if err == nil {
			err = verdict(q.answer)
		}
		if err != nil || more.follow == nil {
			return err
		}
		return more.follow(ctx, q)
	})
}

// verdict is the error that makes the exit code say what an answer says, after it was printed.
func verdict(answer any) error {
	switch a := answer.(type) {
	case *token.CanAnswer:
		if !a.Allowed {
			return errMayNot
		}
	case *bench.TakeAnswer:
		if a.Empty {
			return nothing("no job waits")
		}
	case *bench.AssignAnswer:
		if !a.Assigned {
			return nothing(fmt.Sprintf("nothing is assigned: no node was found for %d of what the job asks for", len(a.Failed)))
		}
	case *flow.ClaimAnswer:
		if a.Key == "" {
			return nothing("nothing waits that could be claimed")
		}
	case *flow.LockAnswer:
		if !a.Granted {
			return codes.Errorf(codes.Locked, "the lock is not granted: %q has it", a.Owner)
		}
	}
	return nil
}

// as is what shows answers of one type, for any.
func as[A any](show func(*verb.App, *A) error) func(*verb.App, any) error {
	return func(a *verb.App, answer any) error { return show(a, answer.(*A)) }
}

// defineWords gives a verb the usage line, help and flags that follow from its question, and
// returns the members that are arguments.
func defineWords(a *verb.App, command *cobra.Command, o *op.Operation, question any) (words []*word) {
	members := slices.Clone(op.MembersOf(o.Question()))
	slices.SortStableFunc(members, func(a, b op.Member) int { return a.Arg - b.Arg })
	use := []string{o.Name}
	var help strings.Builder
	command.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-")) // members have the one, flags the other
	})
	for i := range members {
		w := &word{app: a, member: &members[i], question: question}
		if w.member.Arg == 0 {
			w.define(command)
			continue
		}
		words, use = append(words, w), append(use, w.usage())
		fmt.Fprintf(&help, "  %-12s %s\n", strings.ToUpper(w.member.Name), w.doc())
	}
	command.Use = strings.Join(use, " ")
	command.Long = command.Short + "."
	if len(words) > 0 {
		command.Long += "\n\n" + strings.TrimSuffix(help.String(), "\n")
	}
	return words
}

// word is a member of a question as an argument or a flag.
type word struct {
	app      *verb.App
	member   *op.Member
	question any
}

// usage is the argument in the usage line.
func (w *word) usage() string {
	name := strings.ToUpper(w.member.Name)
	if w.member.Form == op.ListForm {
		name += "…"
	}
	if w.member.Optional {
		return "[" + name + "]"
	}
	return name
}

// doc is what help says of the member: a shell takes ~N for its own unless it is quoted.
func (w *word) doc() string { return strings.ReplaceAll(w.member.Doc, "~N", "'~N'") }

func (w *word) define(command *cobra.Command) {
	letter := ""
	if w.member.Name == commentFlag {
		letter = commentLetter
	}
	doc := w.doc()
	switch {
	case w.texts():
		doc += "; several are separated by commas"
	case w.duration():
		doc += "; or a duration such as 10m"
	}
	flag := command.Flags().VarPF(w, w.member.Name, letter, doc)
	if w.member.Form == op.FlagForm {
		flag.NoOptDefVal = "true"
	}
	verb.FreeText(command, w.member.Name)
}

// texts reports whether the member is a list of texts.
func (w *word) texts() bool {
	return w.member.Form == op.ListForm && op.FormOf(w.member.Type.Elem()) == op.TextForm
}

// duration reports whether the member is one, which its description begins with the unit of.
func (w *word) duration() bool {
	return w.member.Form == op.WholeForm && strings.HasPrefix(w.member.Doc, "ms ")
}

// Set sets the member: its text, @FILE, or - for standard input.
func (w *word) Set(text string) error {
	if w.member.Arg == 0 && w.texts() {
		var several settings.List
		_ = several.Set(text) // it never fails
		for _, one := range several {
			if err := w.set(one); err != nil {
				return err
			}
		}
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil && w.duration() && d%time.Millisecond == 0 {
		text = strconv.FormatInt(d.Milliseconds(), 10)
	}
	return w.set(text)
}

func (w *word) set(text string) error {
	switch w.member.Form {
	case op.WholeForm, op.NumberForm, op.FlagForm:
	default:
		data, err := w.app.ReadArgument(text)
		if err != nil {
			return err
		}
		text = string(data)
	}
	if err := w.member.Set(w.question, text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), w.member.Name+" "))
	}
	return nil
}

// String is the default.
func (w *word) String() string { return "" }

// Type is how help shows the flag's argument.
func (w *word) Type() string {
	switch w.member.Form {
	case op.TextForm:
		return "text"
	case op.WholeForm, op.NumberForm:
		if w.duration() {
			return "duration"
		}
		return "N"
	case op.FlagForm:
		return "bool" // which help shows as what needs no argument
	case op.ListForm:
		if w.texts() {
			return "list"
		}
	}
	return "JSON"
}

// showAnswer prints an answer for people: its only value; or a line for each member and a table
// for each list of objects.
func showAnswer(a *verb.App, answer any) error {
	v := reflect.ValueOf(answer).Elem()
	members := op.MembersOf(v.Type())
	for _, m := range members {
		field := v.FieldByIndex(m.Index)
		switch {
		case m.Form == op.ListForm && op.FormOf(m.Type.Elem()) == op.ObjectForm:
			if err := showRows(a, field); err != nil {
				return err
			}
		case m.Form == op.ListForm && op.FormOf(m.Type.Elem()) == op.TextForm:
			for i := range field.Len() {
				fmt.Fprintln(a.Stdout, textOf(field.Index(i)))
			}
		case len(members) == 1:
			fmt.Fprintln(a.Stdout, textOf(field))
		case !field.IsZero(), m.Form == op.FlagForm && !m.Optional: // which is the answer
			fmt.Fprintf(a.Stdout, "%s: %s\n", m.Name, shown(m, field))
		}
	}
	return nil
}

// showRows prints a list of objects, without members that none of them has.
func showRows(a *verb.App, list reflect.Value) error {
	of := list.Type().Elem()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var columns []op.Member
	var header []string
	for _, m := range op.MembersOf(of) {
		for i := range list.Len() {
			if !reflect.Indirect(list.Index(i)).FieldByIndex(m.Index).IsZero() {
				columns, header = append(columns, m), append(header, strings.ToUpper(m.Name))
				break
			}
		}
	}
	rows := make([][]any, list.Len())
	for i := range rows {
		for _, m := range columns {
			rows[i] = append(rows[i], screen.Cell(screen.Shortened(shown(m, reflect.Indirect(list.Index(i)).FieldByIndex(m.Index)))))
		}
	}
	return a.Table(strings.Join(header, "\t"), rows)
}

// times are how descriptions say that a number is a time, each with how many of its units are a ms.
// Those in seconds are versions, which people give back as they are.
var times = map[string]int64{"in ms since 1970": 1, "in ns since 1970": 1e6, "in nanoseconds since 1970": 1e6}

// shown is the value of a member for people: the time of day, the texts of a list, or textOf; of what
// has not happened it is empty.
func shown(m op.Member, v reflect.Value) string {
	if m.Form == op.ListForm && op.FormOf(m.Type.Elem()) == op.TextForm {
		var texts []string
		for i := range v.Len() {
			texts = append(texts, textOf(v.Index(i)))
		}
		return strings.Join(texts, ", ")
	}
	for unit, perMs := range times {
		if !v.CanInt() || !strings.Contains(m.Doc, unit) {
			continue
		}
		if v.IsZero() {
			return ""
		}
		return screen.Time(v.Int() / perMs)
	}
	return textOf(v)
}

// textOf is a value on one line: a text without quotes if it needs none, anything else as JSON.
func textOf(v reflect.Value) string {
	raw, err := verb.Encoding.Marshal(v.Interface())
	if err != nil {
		return err.Error()
	}
	var text string
	if op.FormOf(v.Type()) == op.TextForm && jsoniter.Unmarshal(raw, &text) == nil && fmt.Sprintf("%q", text) == string(raw) {
		return text
	}
	return string(raw)
}
