package bench_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/models/bench"
)

// members are the paths of all members of a record.
func members(t *testing.T, record any) []string {
	text, err := json.Marshal(record)
	require.NoError(t, err)
	var tree any
	require.NoError(t, json.Unmarshal(text, &tree))
	var paths []string
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, one := range v {
				paths = append(paths, at+name)
				walk(at+name+".", one)
			}
		case []any:
			for _, one := range v {
				walk(at, one)
			}
		}
	}
	walk("", tree)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// The records of the design document, member by member.
func TestRecordsAreThoseOfTheDocument(t *testing.T) {
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		id := r.ready()
		ask(r, r.UpdateTask, bench.TaskAsk{ID: id, Stage: "start_server", Task: "serve", Node: "srv", Usage: &bench.Usage{CPUTime: 1}})
		has := members(t, r.job(id))
		for _, want := range strings.Fields(`id rawSpec spec createTime startTime stopTime status currentPipeline foregroundStages backgroundStages finishedStages
			pipelines pipelines.status pipelines.stages
			stages stages.index stages.pipeline stages.spec stages.spec.name stages.nodes
			stages.nodes.id stages.nodes.name stages.nodes.role stages.nodes.info stages.nodes.info.id
			stages.nodes.pipelines stages.nodes.pipelines.status stages.nodes.pipelines.tasks
			stages.nodes.tasks stages.nodes.tasks.status stages.nodes.tasks.startTime stages.nodes.tasks.readyTime stages.nodes.tasks.stopTime stages.nodes.tasks.usage`) {
			require.Contains(t, has, want)
		}
		text, err := json.Marshal(r.job(r.submit(small)))
		require.NoError(t, err)
		for _, want := range []string{`"foregroundStages":[]`, `"finishedStages":[]`, `"nodes":[]`, `"startTime":0`, `"stopTime":0`, `"currentPipeline":0`} {
			require.Contains(t, string(text), want)
		}
		text, err = json.Marshal(r.job(id).Stages[3].Nodes[0].Tasks[0])
		require.NoError(t, err)
		require.JSONEq(t, `{"status": "TASK_QUEUED", "startTime": 0, "readyTime": 0, "stopTime": 0}`, string(text))

		work := bench.NodeJob{
			ID: id, Properties: bench.Properties{Name: "srv", Role: bench.DatabaseRole}, State: bench.NodeJobRunning,
			ForegroundStages: []bench.NodeWork{{Index: 1, Name: "download_server", Tasks: []bench.NodeTask{{Status: bench.TaskFinished}}}},
			BackgroundStages: []bench.NodeWork{{Index: 2, Name: "start_server", Tasks: []bench.NodeTask{{Name: "serve", Status: bench.TaskBackground}}}},
		}
		ask(r, r.Heartbeat, bench.HeartbeatAsk{ID: "db1", Status: bench.NodeStatus{State: bench.RunningJob, Jobs: []bench.NodeJob{work}}})
		r.register("label", bench.AnyRole, bench.Label{K: "k", V: "v"})
		has = members(t, ask(r, r.Nodes, bench.NodesAsk{}).Nodes)
		for _, want := range strings.Fields(`id state info info.id info.addr.ip info.addr.bindAddr info.addr.remoteAddr
			info.config.role info.config.provider.name info.config.provider.region info.config.provider.instance info.config.labels.k info.config.labels.v
			info.capacity.cores info.capacity.memoryFree info.capacity.memoryTotal info.capacity.diskFree info.capacity.diskTotal
			info.property.startTime info.property.bootTime info.property.host
			status.state status.heartbeatTime status.jobs.id status.jobs.properties.name status.jobs.properties.role status.jobs.state
			status.jobs.foregroundStages.tasks.status status.jobs.backgroundStages.tasks.status`) {
			require.Contains(t, has, want)
		}
	})
}
