package main

import (
	"confcenter/state"
	"confcenter/state/bench"
	"confcenter/state/flow"
)

// models are the tables that everything follows from.
var models = []state.Model{{Name: "flow", Operations: flow.Operations}, {Name: "bench", Operations: bench.Operations}}
