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
)

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
