package bench

import (
	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/op"
)

// Operations is everything that can be asked of a Bench. The order is that of the commands'
// numbers: new ones are added at the end.
var Operations = paid([]op.Operation{
	op.Define("register-node", access.BenchWrite, "POST nodes/register", "stores a node, or what has changed of one that is there", (*Bench).RegisterNode),
	op.Define("add-node", access.BenchWrite, "POST nodes/add", "stores a node that is not there yet", (*Bench).AddNode),
	op.Define("update-node", access.BenchWrite, "POST nodes/update", "replaces what a node is", (*Bench).UpdateNode),
	op.Define("heartbeat", access.BenchWrite, "POST nodes/heartbeat", "says that a node is alive, and what it does", (*Bench).Heartbeat),
	op.Define("node", access.BenchRead, "GET node", "returns a node", (*Bench).FindNode),
	op.Define("nodes", access.BenchRead, "GET nodes", "lists nodes", (*Bench).Nodes),
	op.Define("count-nodes", access.BenchRead, "GET nodes/count", "returns how many nodes there are", (*Bench).CountNodes),
	op.Define("remove-node", access.BenchWrite, "POST nodes/remove", "removes a node that no job has", (*Bench).RemoveNode),
	op.Define("node-history", access.BenchRead, "GET nodes/history", "returns what happened to a node", (*Bench).NodeHistory),
	op.Define("node-stages", access.BenchRead, "GET nodes/stages", "returns all stages of all jobs that a node does or did", (*Bench).NodeStages),
	op.Define("submit-job", access.BenchWrite, "POST jobs/submit", "puts a job at the end of the queue", (*Bench).SubmitJob),
	op.Define("check-spec", access.BenchRead, "POST jobs/check", "says what is wrong with a specification", (*Bench).CheckSpec),
	op.Define("take-job", access.BenchWrite, "POST jobs/take", "hands out the first job that waits", (*Bench).TakeJob),
	op.Define("keep-job", access.BenchWrite, "POST jobs/keep", "keeps a job that was taken for longer", (*Bench).KeepJob),
	op.Define("push-back-job", access.BenchWrite, "POST jobs/pushback", "lets a job wait again that was taken", (*Bench).PushBackJob),
	op.Define("assign-nodes", access.BenchWrite, "POST jobs/assign", "chooses the nodes of a job that was taken", (*Bench).AssignNodes),
	op.Define("start-job", access.BenchWrite, "POST jobs/start", "starts a job on its nodes", (*Bench).StartJob),
	op.Define("update-task", access.BenchWrite, "POST tasks/update", "says how far a task is on a node", (*Bench).UpdateTask),
	op.Define("kill-task", access.BenchWrite, "POST tasks/kill", "stops one task; the job goes on", (*Bench).KillTask),
	op.Define("abort-job", access.BenchWrite, "POST jobs/abort", "ends a job early, with all its tasks", (*Bench).AbortJob),
	op.Define("job", access.BenchRead, "GET job", "returns a job with everything below it", (*Bench).FindJob),
	op.Define("jobs", access.BenchRead, "GET jobs", "lists jobs, those that have ended included", (*Bench).Jobs),
	op.Define("job-stage", access.BenchRead, "GET jobs/stage", "returns one stage of a job on all its nodes", (*Bench).JobStage),
	op.Define("job-history", access.BenchRead, "GET jobs/history", "returns what happened to a job", (*Bench).JobHistory),
	op.Define("remove-job", access.BenchWrite, "POST jobs/remove", "removes a job that has ended, with its history and logs", (*Bench).RemoveJob),
	op.Define("log-task", access.BenchWrite, "POST tasks/log", "adds to the log of a task", (*Bench).LogTask),
	op.Define("task-log", access.BenchRead, "GET tasks/log", "returns the log of a task", (*Bench).TaskLog),
})

// paid has the bench's namespace pay for everything but signs of life: who could not send those would
// lose more than a request.
func paid(list []op.Operation) []op.Operation {
	for i := range list {
		if name := list[i].Name; name != "heartbeat" && name != "keep-job" {
			_, verb, _ := policy.Of(list[i].Right)
			list[i] = list[i].About(func(_ any, things []op.Thing) []op.Thing { return append(things, op.Whole(verb, policy.Bench)) })
		}
	}
	return list
}
