package bench

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Enum is a value of one of the enumerations below. It is written by its name, and read from
// its name, in upper or lower case, with or without what the names of the enumeration have in
// common ("idle" is NODE_IDLE), or from its number. The zero value is the unknown one, which
// is also read from "unknown" alone.
type Enum[K any] uint8

type names struct {
	what           string
	prefix, suffix string   // of all names but the first
	list           []string // by their numbers
}

// The enumerations.
type (
	Role                = Enum[roleKind]            // what a node is for
	NodeState           = Enum[nodeStateKind]       // what a node does
	NodeJobState        = Enum[nodeJobStateKind]    // what a node does for one job
	Provider            = Enum[providerKind]        // whose machine a node is
	ErrorCode           = Enum[errorCodeKind]       // what kind of error it is
	ErrorSource         = Enum[errorSourceKind]     // where an error comes from
	JobStatus           = Enum[jobStatusKind]       // of a job
	StagePipelineStatus = Enum[stagePipelineKind]   // of a pipeline of stages
	TaskPipelineStatus  = Enum[taskPipelineKind]    // of a pipeline of tasks
	TaskStatus          = Enum[taskStatusKind]      // of a task on one node
	TaskDriver          = Enum[taskDriverKind]      // how a task is run
	DockerAction        = Enum[dockerActionKind]    // what a task does with an image
	OwnerType           = Enum[ownerTypeKind]       // who owns a job
	ScheduleSuccess     = Enum[scheduleSuccessKind] // why a node was assigned
	ScheduleFail        = Enum[scheduleFailKind]    // why no node could be assigned
)

type (
	roleKind            struct{}
	nodeStateKind       struct{}
	nodeJobStateKind    struct{}
	providerKind        struct{}
	errorCodeKind       struct{}
	errorSourceKind     struct{}
	jobStatusKind       struct{}
	stagePipelineKind   struct{}
	taskPipelineKind    struct{}
	taskStatusKind      struct{}
	taskDriverKind      struct{}
	dockerActionKind    struct{}
	ownerTypeKind       struct{}
	scheduleSuccessKind struct{}
	scheduleFailKind    struct{}
)

// enums are the enumerations by their kinds.
var enums = map[any]*names{
	roleKind{}:            {what: "role", list: strings.Fields("UNKNOWN_ROLE ANY CENTRAL LOADER DATABASE")},
	nodeStateKind{}:       {what: "node state", prefix: "NODE_", list: strings.Fields("UNKNOWN_NODE_STATE FINDING_CENTRAL IDLE RUNNING_JOB")},
	nodeJobStateKind{}:    {what: "node job state", prefix: "NODE_JOB_", list: strings.Fields("UNKNOWN_NODE_JOB_STATE RUNNING FINISHED ERROR WAITING_INSTRUCTION REPORTING CLEANUP")},
	providerKind{}:        {what: "provider", suffix: "_PROVIDER", list: strings.Fields("UNKNOWN_PROVIDER LOCAL VAGRANT ALI AWS AZURE GCP PACKET")},
	errorCodeKind{}:       {what: "error code", list: strings.Fields("UNKNOWN_ERROR ALREADY_EXISTS NOT_FOUND INVALID_CONFIG PERMISSION_DENIED STORE_ERROR")},
	errorSourceKind{}:     {what: "error source", prefix: "SOURCE_", list: strings.Fields("UNKNOWN_SOURCE CENTRAL AGENT META_STORE TS_STORE")},
	jobStatusKind{}:       {what: "job status", prefix: "JOB_", list: strings.Fields("UNKNOWN_JOB_STATUS QUEUED RUNNING FINISHED ABORTED")},
	stagePipelineKind{}:   {what: "stage pipeline status", prefix: "STAGE_PIPELINE_", list: strings.Fields("UNKNOWN_STAGE_PIPELINE_STATUS QUEUED RUNNING FINISHED BACKGROUND ABORTED")},
	taskPipelineKind{}:    {what: "task pipeline status", prefix: "TASK_PIPELINE_", list: strings.Fields("UNKNOWN_TASK_PIPELINE_STATUS QUEUED RUNNING FINISHED BACKGROUND ABORTED")},
	taskStatusKind{}:      {what: "task status", prefix: "TASK_", list: strings.Fields("UNKNOWN_TASK_STATUS QUEUED RUNNING BACKGROUND FINISHED ABORTED")},
	taskDriverKind{}:      {what: "task driver", list: strings.Fields("UNKNOWN_TASKDRIVER STOPPER SHELL EXEC DOCKER")},
	dockerActionKind{}:    {what: "docker action", list: strings.Fields("UNKNOWN PULL RUN")},
	ownerTypeKind{}:       {what: "owner type", list: strings.Fields("UNKNOWN_OWNER USER ORG")},
	scheduleSuccessKind{}: {what: "success of scheduling", list: strings.Fields("UNKNOWN_SUCCESS IDLE_EXACT_ROLE_MATCH IDLE_ANY_ROLE_MATCH")},
	scheduleFailKind{}:    {what: "failure of scheduling", list: strings.Fields("UNKNOWN_FAIL IDLE_ROLE_NO_MATCH BUSY_DATABASE")},
}

// The values that the rules of package bench are about, by their numbers.
const (
	AnyRole      Role = 1
	CentralRole  Role = 2
	LoaderRole   Role = 3
	DatabaseRole Role = 4

	FindingCentral NodeState = 1
	NodeIdle       NodeState = 2
	RunningJob     NodeState = 3

	NodeJobRunning            NodeJobState = 1
	NodeJobFinished           NodeJobState = 2
	NodeJobError              NodeJobState = 3
	NodeJobWaitingInstruction NodeJobState = 4

	AlreadyExists ErrorCode = 1
	NotFound      ErrorCode = 2
	InvalidConfig ErrorCode = 3

	JobQueued   JobStatus = 1
	JobRunning  JobStatus = 2
	JobFinished JobStatus = 3
	JobAborted  JobStatus = 4

	TaskQueued     TaskStatus = 1
	TaskRunning    TaskStatus = 2
	TaskBackground TaskStatus = 3
	TaskFinished   TaskStatus = 4
	TaskAborted    TaskStatus = 5

	Stopper TaskDriver = 1
	Shell   TaskDriver = 2
	Exec    TaskDriver = 3
	Docker  TaskDriver = 4

	IdleExactRoleMatch ScheduleSuccess = 1
	IdleAnyRoleMatch   ScheduleSuccess = 2
	IdleRoleNoMatch    ScheduleFail    = 1
	BusyDatabase       ScheduleFail    = 2
)

// The statuses of both kinds of pipelines.
const (
	pipelineQueued = iota + 1
	pipelineRunning
	pipelineFinished
	pipelineBackground
	pipelineAborted
)

func (n *names) name(i int) string {
	switch {
	case i >= len(n.list):
		return n.what + " " + strconv.Itoa(i)
	case i == 0:
		return n.list[0]
	}
	return n.prefix + n.list[i] + n.suffix
}

func (e Enum[K]) String() string { return e.names().name(int(e)) }

func (Enum[K]) names() *names {
	var kind K
	return enums[kind]
}

// Names are all names of the enumeration, by their numbers.
func (e Enum[K]) Names() []string {
	n := e.names()
	list := make([]string, len(n.list))
	for i := range list {
		list[i] = n.name(i)
	}
	return list
}

// MarshalText implements encoding.TextMarshaler.
func (e Enum[K]) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: a name, or a number in digits.
func (e *Enum[K]) UnmarshalText(text []byte) error {
	if problem := e.parse(string(text)); problem != "" {
		return refuse(InvalidConfig, "%s", problem)
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler, for numbers besides strings. It ignores null.
func (e *Enum[K]) UnmarshalJSON(text []byte) error {
	name := string(text)
	if name == "null" {
		return nil
	}
	if text[0] == '"' {
		if err := json.Unmarshal(text, &name); err != nil {
			return err
		}
	}
	return e.UnmarshalText([]byte(name))
}

// UnmarshalYAML implements yaml.Unmarshaler. Its kind of error lets the decoder go on.
func (e *Enum[K]) UnmarshalYAML(node *yaml.Node) error {
	if problem := e.parse(node.Value); problem != "" {
		return &yaml.TypeError{Errors: []string{"line " + strconv.Itoa(node.Line) + ": " + problem}}
	}
	return nil
}

// parse returns what is wrong with the text, or "".
func (e *Enum[K]) parse(text string) (problem string) {
	const unknown = "UNKNOWN"
	n, said := e.names(), strings.ToUpper(text)
	if said == unknown || said == n.prefix+unknown+n.suffix {
		*e = 0
		return ""
	}
	for i := range n.list {
		if said == n.name(i) || said == n.list[i] {
			*e = Enum[K](i)
			return ""
		}
	}
	if i, err := strconv.ParseUint(said, 10, 8); err == nil && int(i) < len(n.list) {
		*e = Enum[K](i)
		return ""
	}
	const shown = 40
	return "\"" + text[:min(len(text), shown)] + "\" is no " + n.what + ": use one of " + strings.Join(e.Names(), ", ") + ", or its number"
}
