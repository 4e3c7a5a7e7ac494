package main

import "confcenter/state"

// models are the tables that everything follows from.
var models = []state.Model{{Name: "flow"}, {Name: "bench"}}
