package flow

import (
	"cmp"
	"reflect"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/op"
)

// Operations is what can be asked of a Flow, in the order of their numbers on the wire: new
// ones go to the end.
var Operations = byScope([]op.Operation{
	op.Define("list", access.FlowRead, "GET list", "lists the members of a list, all or those with one status", (*Flow).List),
	op.Define("tasks", access.FlowRead, "GET tasks", "lists nodes and services of all applications, all or those with one status", (*Flow).Tasks),
	op.Define("get", access.FlowRead, "GET get", "reads keys; an absent one is null", (*Flow).Get),
	op.Define("read", access.FlowRead, "GET read", "reads all keys with a prefix, with their values", (*Flow).Read),
	op.Define("show", access.FlowRead, "GET member", "shows one member with its status, its fields and who has claimed or locked it", (*Flow).Show),
	op.Define("tree", access.FlowRead, "GET tree", "shows applications with all that is below them, their statuses and how many tasks have which", (*Flow).Tree).
		Refuses(codes.NotFound, "there is no such application").Refuses(codes.BadKey, "it is no id of an application"),
	op.Define("oplog", access.FlowRead, "GET oplog", "reads the operation log of a member, oldest first", (*Flow).Oplog),
	op.Define("workers", access.FlowRead, "GET workers", "lists workers or schedulers", (*Flow).Workers),
	op.Define("assigned", access.FlowRead, "GET assigned", "lists what a worker has claimed", (*Flow).Assigned),
	op.Define("scopes", access.FlowRead, "GET scopes", "lists the scopes", (*Flow).Scopes).ByName(),
	op.Define("register", access.FlowWrite, "POST register", "registers an application with everything in it, or not at all", (*Flow).Register),
	op.Define("stage", access.FlowWrite, "POST stage", "begins an application that is too large for one question", (*Flow).Stage),
	op.Define("add", access.FlowWrite, "POST add", "adds members to a staged application", (*Flow).Add),
	op.Define("publish", access.FlowWrite, "POST publish", "lists a staged application, so that everyone sees all of it", (*Flow).Publish),
	op.Define("discard", access.FlowWrite, "POST discard", "takes a staged application away", (*Flow).Discard),
	op.Define("claim", access.FlowWrite, "POST claim", "claims a task, a flow or an application for a worker, or the next task that waits", (*Flow).Claim),
	op.Define("status", access.FlowWrite, "POST status", "changes the status of a task or an application", (*Flow).SetStatus),
	op.Define("count", access.FlowWrite, "POST count", "adds to the counters of a member", (*Flow).Count),
	op.Define("replicate", access.FlowWrite, "POST replicate", "copies a node so that several instances of it run", (*Flow).Replicate).
		Refuses(codes.BadRequest, "the node is a replica itself").Refuses(codes.Conflict, "another request is at it, or a replica is there already"),
	op.Define("remove", access.FlowWrite, "POST remove", "removes a member with everything below it", (*Flow).Remove),
	op.Define("join", access.FlowWrite, "POST join", "registers a worker or a scheduler, which lives as long as it sends heartbeats", (*Flow).Join),
	op.Define("heartbeat", access.FlowWrite, "POST heartbeat", "says that a worker or a scheduler lives", (*Flow).Heartbeat),
	op.Define("leave", access.FlowWrite, "POST leave", "ends the life of a worker or a scheduler", (*Flow).Leave),
	op.Define("return", access.FlowWrite, "POST return", "returns what a worker has claimed, so that others can claim it", (*Flow).Return),
	op.Define("lock", access.FlowWrite, "POST lock", "locks a key for a time, or says who holds it", (*Flow).TryLock).
		Refuses(codes.BadKey, "the key follows the layout, and is no member").Refuses(codes.FenceLost, "the owner that gives a fence has the lock no more"),
	op.Define("unlock", access.FlowWrite, "POST unlock", "gives a lock back", (*Flow).Unlock),
	op.Define("set", access.FlowWrite, "POST set", "writes keys, all or none", (*Flow).Set),
	op.Define("delete", access.FlowWrite, "POST delete", "deletes a key, or everything below it", (*Flow).Delete),
})

// byScope has operations decide by the scope that a question names. Without one there is no name:
// then the right to all scopes is needed, unless the method asks itself.
func byScope(list []op.Operation) []op.Operation {
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
