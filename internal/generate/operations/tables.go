package main

import (
	"confcenter/access/audit"
	"confcenter/access/review"
	"confcenter/access/secret"
	"confcenter/access/token"
	"confcenter/confstore/history"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
	"confcenter/player/landops"
)

// tables are all of which rows of the command table follow. Of those besides models that is all: their ids are
// in another family, PROTOCOL.md tells of them, and HTTP and the command line have ways of their own.
func tables(models []op.Model) []op.Model {
	return append(landops.Models(nil), models...)
}

// models are the tables that everything follows from.
var models = []op.Model{
	{Name: "history", Operations: history.Operations},
	{Name: "flow", Operations: flow.Operations},
	{Name: "bench", Operations: bench.Operations},
	{Name: "auth", Operations: token.Operations},
	{Name: "review", Operations: review.Operations},
	{Name: "secret", Operations: secret.Operations},
	{Name: "audit", Operations: audit.Operations},
}
