package flow

import (
	"slices"

	"confcenter/codes"
)

// Status is what a list says of a member. It is spelled as cloudflow does.
type Status string

// The states of tasks and applications. Workers and schedulers are Working or Exited;
// sessions and flows have none.
const (
	Waiting  Status = "WAITING"
	Pending  Status = "PENDDING" // claimed
	Starting Status = "STARTING"
	Working  Status = "WORKING"
	Stopping Status = "STOPING"
	Exited   Status = "EXITED"
	None     Status = "NONE" // what the tree says of an application without tasks; never written
)

// Statuses are all of them, in the order in which a task goes through them.
var Statuses = []Status{Waiting, Pending, Starting, Working, Stopping, Exited, None}

// next says what can follow. A claim makes Pending of Waiting, and a return makes Waiting of
// what a worker had.
var next = map[Status][]Status{
	Waiting:  {Pending},
	Pending:  {Starting, Stopping},
	Starting: {Working, Stopping},
	Working:  {Exited, Stopping},
	Stopping: {Exited},
}

// CheckTransition reports whether a member may go from one state to another.
func CheckTransition(from, to Status) error {
	if slices.Contains(next[from], to) {
		return nil
	}
	return codes.Errorf(codes.Conflict, "%s cannot become %s: from %s only %v can follow", from, to, from, next[from])
}

// ParseStatus reads a status. The empty one is allowed if any is.
func ParseStatus(text string, any bool) (Status, error) {
	if s := Status(text); any && text == "" || slices.Contains(Statuses, s) {
		return s, nil
	}
	return "", codes.Errorf(codes.BadRequest, "%.40q is no status: there are %v", text, Statuses)
}
