package modeltest

import (
	"encoding/json" // a decoder that is not the product's
	"fmt"
	"maps"
	"regexp"
	"slices"

	"confcenter/models/flow"
)

// FlowFaults says what is wrong with the keys of a scope, by their JSON values: a list and a
// record differ, an assignment and the record of the task do, a counter is not what it counts,
// or the operation log does not tell how a status came to be.
func FlowFaults(values map[string]string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	claims, tasks, status := map[string]int{}, map[string]int{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) { // the log of a member in its order
		value := values[key]
		parsed, err := flow.ParseKey(key)
		if err != nil {
			fault("%v", err)
			continue
		}
		m := parsed.Member.String()
		switch parsed.Form {
		case flow.ListMember:
			if cstat := values[m+".cstat"]; value != cstat {
				fault("%s is %s, and the record says %s", key, value, cstat)
			}
			if state := values[m+".state"]; parsed.Member.Kind == flow.Node && value != state {
				fault("%s is %s, and its state %s", key, value, state)
			}
			if values[m+".atime"] == "" {
				fault("%s has no atime", key)
			}
		case flow.Assignment:
			tasks[m]++
			task := parsed.Task
			holder := map[flow.Kind]string{flow.Node: "worker", flow.Service: "worker", flow.FlowKind: "claim", flow.App: "claim"}[task.Kind]
			if has := textOf(values[task.String()+"."+holder]); has != parsed.Member.ID {
				fault("%s, and the record says %q", key, has)
			}
			for owner := textOf(values[task.String()+".parent"]); owner != ""; owner = textOf(values[owner+".parent"]) {
				claims[owner]++
			}
		case flow.LogLine:
			if k := parsed.Member.Kind; k == flow.Worker || k == flow.Scheduler {
				continue // joining is no change of a status
			}
			told, err := transition(value, status[m])
			if err != nil {
				fault("%s: %v", key, err)
			}
			status[m] = told
		}
	}
	for key, value := range values {
		parsed, _ := flow.ParseKey(key)
		m := parsed.Member.String()
		want := value
		switch {
		case parsed.Form != flow.Field:
		case parsed.Field == "tasks":
			want = fmt.Sprint(tasks[m])
		case parsed.Field == "claims":
			want = fmt.Sprint(claims[m])
		case parsed.Field == "cstat" && status[m] != "":
			want = fmt.Sprintf("%q", status[m])
		}
		if value != want {
			fault("%s is %s, and it should be %s", key, value, want)
		}
	}
	return faults
}

func textOf(value string) (text string) {
	_ = json.Unmarshal([]byte(value), &text)
	return text
}

// changed is how the operation log tells of a change of a status.
var changed = regexp.MustCompile(`^([A-Z]+) -> ([A-Z]+)`)

// transition is the status after a line of a log, where the one before it is known.
func transition(line, before string) (after string, err error) {
	var told struct{ What string }
	if err := json.Unmarshal([]byte(line), &told); err != nil {
		return before, err
	}
	m := changed.FindStringSubmatch(told.What)
	switch {
	case m == nil:
		return before, nil
	case before != "" && m[1] != before:
		return m[2], fmt.Errorf("%s, and it was %s before", told.What, before)
	}
	return m[2], nil
}
