// Package sampletest is a model for the tests of the edges, which have to serve any.
package sampletest

import (
	"context"
	"strings"
	"sync"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// Sample is a model that counts, and remembers who asked last.
type Sample struct {
	mu   sync.Mutex
	n    int64            // guarded by mu
	last *access.Actor    // guarded by mu
	done map[string]int64 // guarded by mu: by token
}

// The questions and answers of a Sample.
type (
	// AddAsk asks to add.
	AddAsk struct {
		Name  string   `json:"name" doc:"what is counted" arg:"1"`
		By    int64    `json:"by,omitempty" doc:"how many; 0: 1" arg:"2"`
		Tags  []string `json:"tags,omitempty" doc:"what it is like"`
		Token string   `json:"token,omitempty" doc:"a request token"`
	}
	// Sum is how many there are.
	Sum struct {
		Name string `json:"name" doc:"what is counted"`
		N    int64  `json:"n" doc:"how many there are"`
	}
	// ListAsk asks for what there is.
	ListAsk struct {
		Long  int64    `json:"long,omitempty" doc:"bytes of each name"`
		Names []string `json:"names,omitempty" doc:"only these"`
		Deep  bool     `json:"deep,omitempty" doc:"also what is below"`
		Far   *bool    `json:"far,omitempty" doc:"only what is far, or is not"`
	}
	// ListAnswer is what there is.
	ListAnswer struct {
		Sums []Sum  `json:"sums" doc:"a line for each"`
		By   string `json:"by,omitempty" doc:"who asked last"`
		Far  *bool  `json:"far,omitempty" doc:"as it was asked"`
	}
)

// Add counts.
func (s *Sample) Add(_ context.Context, by *access.Actor, q *AddAsk) (*Sum, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Name == "" {
		return nil, codes.Errorf(codes.BadRequest, "name is empty: say what is counted")
	}
	if n, again := s.done[q.Token]; again && q.Token != "" {
		return &Sum{q.Name, n}, nil
	}
	s.n += max(q.By, 1)
	if s.done == nil {
		s.done = map[string]int64{}
	}
	s.done[q.Token], s.last = s.n, by
	return &Sum{q.Name, s.n}, nil
}

// List lists.
func (s *Sample) List(_ context.Context, _ *access.Actor, q *ListAsk) (*ListAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &ListAnswer{Far: q.Far}
	for _, name := range q.Names {
		answer.Sums = append(answer.Sums, Sum{name + strings.Repeat("x", int(q.Long)), s.n})
	}
	if s.last != nil {
		answer.By = s.last.Origin
	}
	return answer, nil
}

// Used implements state.User.
func (s *Sample) Used(context.Context) ([]op.Used, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Used{{What: "sums", N: s.n, Limit: 1000}}, nil
}

// Operations are what can be asked of a Sample.
var Operations = []op.Operation{
	op.Define("add-up", access.FlowWrite, "POST add", "counts what there is", (*Sample).Add),
	op.Define("list", access.FlowRead, "GET sums", "lists the sums", (*Sample).List),
}

// Model is a Sample in place of the model flow.
func Model(s *Sample) op.Model {
	return op.Model{Name: "flow", Operations: Operations, Asked: s, Count: &op.Count{}}
}
