package main

import (
	"confcenter/state"
	"confcenter/state/audit"
	"confcenter/state/auth"
	"confcenter/state/bench"
	"confcenter/state/flow"
	"confcenter/state/history"
	"confcenter/state/review"
	"confcenter/state/secret"
	"confcenter/storage/landops"
)

// tables are all of which rows of the command table follow. Of those besides models that is all: their ids are
// in another family, PROTOCOL.md tells of them, and HTTP and the command line have ways of their own.
func tables(models []state.Model) []state.Model {
	return append(landops.Models(nil), models...)
}

// models are the tables that everything follows from.
var models = []state.Model{
	{Name: "history", Operations: history.Operations},
	{Name: "flow", Operations: flow.Operations},
	{Name: "bench", Operations: bench.Operations},
	{Name: "auth", Operations: auth.Operations},
	{Name: "review", Operations: review.Operations},
	{Name: "secret", Operations: secret.Operations},
	{Name: "audit", Operations: audit.Operations},
}
