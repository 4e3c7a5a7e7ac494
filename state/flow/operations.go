package flow

import (
	"cmp"
	"reflect"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/op"
	"confcenter/state"
)

// Operations is what can be asked of a Flow, in the order of their numbers on the wire: new
// ones go to the end.
var Operations = byScope([]state.Operation{
	state.Define("list", access.FlowRead, "GET list", "lists the members of a list, all or those with one status", (*Flow).List),
	state.Define("tasks", access.FlowRead, "GET tasks", "lists nodes and services of all applications, all or those with one status", (*Flow).Tasks),
	state.Define("get", access.FlowRead, "GET get", "reads keys; an absent one is null", (*Flow).Get),
	state.Define("read", access.FlowRead, "GET read", "reads all keys with a prefix, with their values", (*Flow).Read),
	state.Define("show", access.FlowRead, "GET member", "shows one member with its status, its fields and who has claimed or locked it", (*Flow).Show),
	state.Define("tree", access.FlowRead, "GET tree", "shows applications with all that is below them, their statuses and how many tasks have which", (*Flow).Tree).
		Refuses(codes.NotFound, "there is no such application").Refuses(codes.BadKey, "it is no id of an application"),
	state.Define("oplog", access.FlowRead, "GET oplog", "reads the operation log of a member, oldest first", (*Flow).Oplog),
	state.Define("workers", access.FlowRead, "GET workers", "lists workers or schedulers", (*Flow).Workers),
	state.Define("assigned", access.FlowRead, "GET assigned", "lists what a worker has claimed", (*Flow).Assigned),
	state.Define("scopes", access.FlowRead, "GET scopes", "lists the scopes", (*Flow).Scopes).ByName(),
	state.Define("register", access.FlowWrite, "POST register", "registers an application with everything in it, or not at all", (*Flow).Register),
	state.Define("stage", access.FlowWrite, "POST stage", "begins an application that is too large for one question", (*Flow).Stage),
	state.Define("add", access.FlowWrite, "POST add", "adds members to a staged application", (*Flow).Add),
	state.Define("publish", access.FlowWrite, "POST publish", "lists a staged application, so that everyone sees all of it", (*Flow).Publish),
	state.Define("discard", access.FlowWrite, "POST discard", "takes a staged application away", (*Flow).Discard),
	state.Define("claim", access.FlowWrite, "POST claim", "claims a task, a flow or an application for a worker, or the next task that waits", (*Flow).Claim),
	state.Define("status", access.FlowWrite, "POST status", "changes the status of a task or an application", (*Flow).SetStatus),
	state.Define("count", access.FlowWrite, "POST count", "adds to the counters of a member", (*Flow).Count),
	state.Define("replicate", access.FlowWrite, "POST replicate", "copies a node so that several instances of it run", (*Flow).Replicate).
		Refuses(codes.BadRequest, "the node is a replica itself").Refuses(codes.Conflict, "another request is at it, or a replica is there already"),
	state.Define("remove", access.FlowWrite, "POST remove", "removes a member with everything below it", (*Flow).Remove),
	state.Define("join", access.FlowWrite, "POST join", "registers a worker or a scheduler, which lives as long as it sends heartbeats", (*Flow).Join),
	state.Define("heartbeat", access.FlowWrite, "POST heartbeat", "says that a worker or a scheduler lives", (*Flow).Heartbeat),
	state.Define("leave", access.FlowWrite, "POST leave", "ends the life of a worker or a scheduler", (*Flow).Leave),
	state.Define("return", access.FlowWrite, "POST return", "returns what a worker has claimed, so that others can claim it", (*Flow).Return),
	state.Define("lock", access.FlowWrite, "POST lock", "locks a key for a time, or says who holds it", (*Flow).TryLock).
		Refuses(codes.BadKey, "the key follows the layout, and is no member").Refuses(codes.FenceLost, "the owner that gives a fence has the lock no more"),
	state.Define("unlock", access.FlowWrite, "POST unlock", "gives a lock back", (*Flow).Unlock),
	state.Define("set", access.FlowWrite, "POST set", "writes keys, all or none", (*Flow).Set),
	state.Define("delete", access.FlowWrite, "POST delete", "deletes a key, or everything below it", (*Flow).Delete),
})

// byScope has operations decide by the scope that a question names. Without one there is no name:
// then the right to all scopes is needed, unless the method asks itself.
func byScope(list []state.Operation) []state.Operation {
	for i := range list {
		scope, names := list[i].Question().FieldByName("Scope")
		if !names {
			continue
		}
		_, verb, _ := policy.Of(list[i].Right)
		unpaid := list[i].Name == "heartbeat" // who could not send it would lose more than a request
		list[i] = list[i].ByName().About(func(question any, things []op.Thing) []op.Thing {
			scope := op.Scope(verb, cmp.Or(reflect.ValueOf(question).Elem().FieldByIndex(scope.Index).String(), DefaultScope))
			scope.Unpaid = unpaid
			return append(things, scope)
		})
	}
	return list
}
