package http

import (
	"net/http"
	"strconv"
	"strings"

	"confcenter/kv/kvjson"
	"confcenter/op"
)

// modelRoutes are those of the models of a cluster's state: each has a root of its own, and a
// route for each operation of its table. A GET has its question in the query, a POST in the body.
func (g *Gateway) modelRoutes() (list []route) {
	for i := range g.stores.Models {
		m := &g.stores.Models[i]
		for place := range m.Operations {
			o := &m.Operations[place]
			method, path, _ := strings.Cut(o.Route, " ")
			rt := route{method: method, pattern: "/v1/" + m.Name + "/" + path, name: m.Name + "." + o.Name, right: o.Right, named: o.Named, handle: g.asksModel(m, o)}
			if method == http.MethodPost {
				rt.body = g.cfg.MaxBody
			}
			list = append(list, rt)
		}
	}
	return list
}

// asksModel handles one operation.
func (g *Gateway) asksModel(m *op.Model, o *op.Operation) handler {
	return func(w *reply, r *http.Request) error {
		question, err := w.question(r, o)
		if err != nil {
			return err
		}
		by, err := w.actor(r)
		if err != nil {
			return err
		}
		answer, err := w.Ask(r.Context(), g.clock.Now(), m, o, by, question)
		if err != nil {
			return err
		}
		if err := w.grow(len(answer) + len("\n")); err != nil {
			return err
		}
		w.b = append(w.b, answer...)
		return w.sendFresh(w.b)
	}
}

// question reads what is asked.
func (w *reply) question(r *http.Request, o *op.Operation) (any, error) {
	p := parametersOf(r)
	if r.Method != http.MethodPost {
		question := o.Ask()
		for _, m := range op.MembersOf(o.Question()) {
			p.member(&m, question)
		}
		return question, p.end()
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if _, err := w.readObject(r, kvjson.HTTP); err != nil {
		return nil, err
	}
	object := w.b
	if len(object) == 0 {
		object = []byte("{}")
	}
	return o.Read(object, w.take)
}

// member reads one member of a question. A list may be given as often as it has elements.
func (p *parameters) member(m *op.Member, question any) {
	texts := p.values[m.Name]
	switch {
	case m.Form == op.FlagForm:
		given := p.has(m.Name)
		if flag := p.flag(m.Name); given { // false is not the same as absent
			texts = []string{strconv.FormatBool(flag)}
		}
	case m.Form != op.ListForm:
		texts = nil
		if text := p.text(m.Name); text != "" {
			texts = []string{text}
		}
	}
	delete(p.values, m.Name)
	for _, text := range texts {
		if err := m.Set(question, text); err != nil {
			p.fail(err)
		}
	}
}
