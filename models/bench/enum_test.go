package bench_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsoniter "github.com/json-iterator/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"confcenter/codes"
	"confcenter/models/bench"
)

// enums has every enumeration of the reference, with its names by their numbers.
var enums = []struct {
	read  func(json string, by func([]byte, any) error) (string, uint8, error)
	names string
}{
	{read[bench.Role], "UNKNOWN_ROLE ANY CENTRAL LOADER DATABASE"},
	{read[bench.NodeState], "UNKNOWN_NODE_STATE NODE_FINDING_CENTRAL NODE_IDLE NODE_RUNNING_JOB"},
	{read[bench.NodeJobState], "UNKNOWN_NODE_JOB_STATE NODE_JOB_RUNNING NODE_JOB_FINISHED NODE_JOB_ERROR NODE_JOB_WAITING_INSTRUCTION NODE_JOB_REPORTING NODE_JOB_CLEANUP"},
	{read[bench.Provider], "UNKNOWN_PROVIDER LOCAL_PROVIDER VAGRANT_PROVIDER ALI_PROVIDER AWS_PROVIDER AZURE_PROVIDER GCP_PROVIDER PACKET_PROVIDER"},
	{read[bench.ErrorCode], "UNKNOWN_ERROR ALREADY_EXISTS NOT_FOUND INVALID_CONFIG PERMISSION_DENIED STORE_ERROR"},
	{read[bench.ErrorSource], "UNKNOWN_SOURCE SOURCE_CENTRAL SOURCE_AGENT SOURCE_META_STORE SOURCE_TS_STORE"},
	{read[bench.JobStatus], "UNKNOWN_JOB_STATUS JOB_QUEUED JOB_RUNNING JOB_FINISHED JOB_ABORTED"},
	{read[bench.StagePipelineStatus], "UNKNOWN_STAGE_PIPELINE_STATUS STAGE_PIPELINE_QUEUED STAGE_PIPELINE_RUNNING STAGE_PIPELINE_FINISHED STAGE_PIPELINE_BACKGROUND STAGE_PIPELINE_ABORTED"},
	{read[bench.TaskPipelineStatus], "UNKNOWN_TASK_PIPELINE_STATUS TASK_PIPELINE_QUEUED TASK_PIPELINE_RUNNING TASK_PIPELINE_FINISHED TASK_PIPELINE_BACKGROUND TASK_PIPELINE_ABORTED"},
	{read[bench.TaskStatus], "UNKNOWN_TASK_STATUS TASK_QUEUED TASK_RUNNING TASK_BACKGROUND TASK_FINISHED TASK_ABORTED"},
	{read[bench.TaskDriver], "UNKNOWN_TASKDRIVER STOPPER SHELL EXEC DOCKER"},
	{read[bench.DockerAction], "UNKNOWN PULL RUN"},
	{read[bench.OwnerType], "UNKNOWN_OWNER USER ORG"},
	{read[bench.ScheduleSuccess], "UNKNOWN_SUCCESS IDLE_EXACT_ROLE_MATCH IDLE_ANY_ROLE_MATCH"},
	{read[bench.ScheduleFail], "UNKNOWN_FAIL IDLE_ROLE_NO_MATCH BUSY_DATABASE"},
}

// read decodes a value and encodes it again.
func read[E interface {
	~uint8
	fmt.Stringer
}](text string, by func([]byte, any) error) (string, uint8, error) {
	record := struct{ E E }{E: 255}
	if err := by([]byte(text), &record); err != nil {
		return "", 0, err
	}
	again, err := json.Marshal(record)
	return string(again), uint8(record.E), err
}

func TestB11EnumsAreReadInAnyCaseAndAsNumbers(t *testing.T) {
	for _, e := range enums {
		for number, name := range strings.Fields(e.names) {
			for _, said := range []string{`"` + name + `"`, `"` + strings.ToLower(name) + `"`, fmt.Sprint(number), fmt.Sprintf(`"%d"`, number)} {
				for which, by := range map[string]func([]byte, any) error{"json": json.Unmarshal, "jsoniter": jsoniter.ConfigCompatibleWithStandardLibrary.Unmarshal} {
					again, got, err := e.read(`{"E":`+said+`}`, by)
					require.NoError(t, err, "%s %s", which, said)
					require.EqualValues(t, number, got)
					require.Equal(t, `{"E":"`+name+`"}`, again)
				}
				_, got, err := e.read("e: "+said, yaml.Unmarshal)
				require.NoError(t, err)
				require.EqualValues(t, number, got)
			}
		}
	}
	for _, e := range enums {
		for _, said := range []string{`null`, `"UNKNOWN"`, `"unknown"`} {
			_, got, err := e.read(`{"E":`+said+`}`, json.Unmarshal)
			require.NoError(t, err, said)
			require.EqualValues(t, map[bool]uint8{true: 255, false: 0}[said == "null"], got, "null is as if it were not there")
		}
	}
	var pipeline bench.StagePipelineStatus
	require.NoError(t, pipeline.UnmarshalText([]byte("stage_pipeline_unknown")))
	var role bench.Role
	require.NoError(t, role.UnmarshalText([]byte("loader")))
	require.Equal(t, bench.LoaderRole, role)
	var provider bench.Provider
	require.NoError(t, provider.UnmarshalText([]byte("aws")))
	require.Equal(t, "AWS_PROVIDER", provider.String())
	var state bench.NodeState
	require.NoError(t, state.UnmarshalText([]byte("idle")))
	require.Equal(t, bench.NodeIdle, state)
	require.Equal(t, "role 9", bench.Role(9).String())
	require.Equal(t, []string{"UNKNOWN_OWNER", "USER", "ORG"}, bench.OwnerType(0).Names())
}

func TestB12UnknownNamesAreInvalid(t *testing.T) {
	for _, e := range enums {
		for _, said := range []string{`"nonsense"`, `99`, `-1`, `""`, `1.5`, `true`, `"` + strings.Repeat("x", 1000) + `"`} {
			_, _, err := e.read(`{"E":`+said+`}`, json.Unmarshal)
			require.Equal(t, codes.InvalidConfig, codes.Of(err), "%s: %v", said, err)
			require.ErrorContains(t, err, "INVALID_CONFIG: ")
			require.ErrorContains(t, err, strings.Fields(e.names)[1])
			require.Less(t, len(err.Error()), 400)
			_, _, err = e.read("e: "+said, yaml.Unmarshal)
			require.ErrorContains(t, err, "line 1")
		}
	}
}
