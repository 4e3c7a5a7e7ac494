// Package bench is the meta store of a benchmark cluster: its nodes, its jobs, and the
// history of both.
//
// Nodes register, send heartbeats and are marked as lost when they fall silent. A job is
// submitted as a specification in YAML and waits in a queue; a scheduler takes it under a
// lease, assigns nodes and starts it; the agents of the nodes report what becomes of their
// tasks, and the job goes from pipeline to pipeline by the rules of package bench alone.
// Whatever is changed is written together with its entry in the history of the node or job.
//
// Everything is kept in one namespace, and nothing in memory. Begin with [Operations], which is
// everything that can be asked; [Bench.Run] notices lost nodes, and [Watch] tells of changes.
package bench
