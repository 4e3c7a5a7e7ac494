package bench

import "slices"

// JobSpec says what a job does. All its members but ID come from the specification in YAML;
// the names are the same there.
type JobSpec struct {
	ID              string           `json:"id,omitempty" yaml:"id" doc:"of the job; set by the server"`
	Name            string           `json:"name" yaml:"name" doc:"for people"`
	Owner           Owner            `json:"owner" yaml:"owner" doc:"whose job it is"`
	Workload        WorkloadSpec     `json:"workload" yaml:"workload" doc:"what is measured"`
	NodeAssignments []NodeAssignment `json:"nodeAssignments" yaml:"nodeAssignments" doc:"the nodes that it needs"`
	Pipelines       []PipelineSpec   `json:"pipelines" yaml:"pipelines" doc:"one after another; without any, each stage is one"`
	Stages          []StageSpec      `json:"stages" yaml:"stages" doc:"what is done"`
}

// Owner is whose a job is.
type Owner struct {
	ID   string    `json:"id,omitempty" yaml:"id" doc:"of the owner"`
	Name string    `json:"name,omitempty" yaml:"name" doc:"of the owner"`
	Type OwnerType `json:"type,omitempty" yaml:"type" doc:"a user or an organisation"`
}

// WorkloadSpec is what a job measures.
type WorkloadSpec struct {
	Framework        string `json:"framework,omitempty" yaml:"framework" doc:"that measures"`
	FrameworkVersion string `json:"frameworkVersion,omitempty" yaml:"frameworkVersion" doc:"of the framework"`
	Database         string `json:"database,omitempty" yaml:"database" doc:"that is measured"`
	DatabaseVersion  string `json:"databaseVersion,omitempty" yaml:"databaseVersion" doc:"of the database"`
}

// Selector selects nodes that have everything it names. A list of selectors selects what any
// of them does.
type Selector struct {
	All    bool    `json:"all,omitempty" yaml:"all" doc:"every node"`
	None   bool    `json:"none,omitempty" yaml:"none" doc:"no node: for stages that only stop others"`
	Name   string  `json:"name,omitempty" yaml:"name" doc:"the node of this name in the job, or when nodes are assigned, of this id or host"`
	Role   Role    `json:"role,omitempty" yaml:"role" doc:"nodes of this role or of any"`
	Labels []Label `json:"labels,omitempty" yaml:"labels" doc:"nodes with all these labels"`
}

// Properties is what a node is in a job.
type Properties struct {
	Name string `json:"name,omitempty" yaml:"name" doc:"unique in the job"`
	Role Role   `json:"role,omitempty" yaml:"role" doc:"in the job"`
}

// NodeAssignment asks for one node. Name and role may also stand beside properties, where
// they are moved.
type NodeAssignment struct {
	Selectors  []Selector `json:"selectors,omitempty" yaml:"selectors" doc:"the nodes to choose from; without any, those of the role"`
	Properties Properties `json:"properties" yaml:"properties" doc:"what the node is in the job"`
	Name       string     `json:"-" yaml:"name"`
	Role       Role       `json:"-" yaml:"role"`
}

// PipelineSpec is stages that run together.
type PipelineSpec struct {
	Name   string   `json:"name,omitempty" yaml:"name" doc:"unique in the job"`
	Stages []string `json:"stages" yaml:"stages" doc:"names of stages"`
}

// StageSpec is what some nodes of a job do at some time.
type StageSpec struct {
	Name       string             `json:"name" yaml:"name" doc:"unique in the job"`
	Background bool               `json:"background,omitempty" yaml:"background" doc:"it goes on until it is stopped, and others need not wait for its end"`
	Selectors  []Selector         `json:"selectors,omitempty" yaml:"selectors" doc:"the nodes of the job that do it; without any, all"`
	Pipelines  []TaskPipelineSpec `json:"pipelines,omitempty" yaml:"pipelines" doc:"one after another; without any, each task is one"`
	Tasks      []TaskSpec         `json:"tasks" yaml:"tasks" doc:"what is done on each of the nodes"`
}

// TaskPipelineSpec is tasks that run together.
type TaskPipelineSpec struct {
	Name  string   `json:"name,omitempty" yaml:"name" doc:"unique in the stage"`
	Tasks []string `json:"tasks" yaml:"tasks" doc:"names of tasks"`
}

// TaskSpec is one thing to be done on a node.
type TaskSpec struct {
	Name       string       `json:"name,omitempty" yaml:"name" doc:"unique in the stage"`
	Background bool         `json:"background,omitempty" yaml:"background" doc:"it goes on until it is stopped"`
	Driver     TaskDriver   `json:"driver" yaml:"driver" doc:"how it is run"`
	Env        []Env        `json:"env,omitempty" yaml:"env" doc:"environment"`
	Stopper    *StopperSpec `json:"stopper,omitempty" yaml:"stopper" doc:"what a stopper stops"`
	Shell      *ShellSpec   `json:"shell,omitempty" yaml:"shell" doc:"what a shell runs"`
	Exec       *ExecSpec    `json:"exec,omitempty" yaml:"exec" doc:"what is executed"`
	Docker     *DockerSpec  `json:"docker,omitempty" yaml:"docker" doc:"what is done with an image"`
	Ready      *ReadySpec   `json:"ready,omitempty" yaml:"ready" doc:"how it is found out that a background task is ready"`
}

// Env is a variable of the environment.
type Env struct {
	K string `json:"k" yaml:"k" doc:"its name"`
	V string `json:"v" yaml:"v" doc:"its value"`
}

// StopperSpec is what a stopper stops when its stage has ended.
type StopperSpec struct {
	Stage string `json:"stage" yaml:"stage" doc:"a background stage"`
	Task  string `json:"task,omitempty" yaml:"task" doc:"one of its tasks"`
	All   bool   `json:"all,omitempty" yaml:"all" doc:"all its tasks"`
}

// ShellSpec is a line for a shell.
type ShellSpec struct {
	Command string `json:"command" yaml:"command" doc:"the line"`
}

// ExecSpec is a program.
type ExecSpec struct {
	Command string   `json:"command" yaml:"command" doc:"the program"`
	Args    []string `json:"args,omitempty" yaml:"args" doc:"its arguments"`
}

// DockerSpec is what is done with an image.
type DockerSpec struct {
	Image  string       `json:"image" yaml:"image" doc:"its name"`
	Action DockerAction `json:"action" yaml:"action" doc:"what is done"`
	Ports  []Port       `json:"ports,omitempty" yaml:"ports" doc:"that are opened"`
}

// Port is a port of a container and of its host.
type Port struct {
	Guest int64 `json:"guest" yaml:"guest" doc:"in the container"`
	Host  int64 `json:"host" yaml:"host" doc:"on the host"`
}

// ReadySpec is how it is found out that a background task is ready: its tasks end.
type ReadySpec struct {
	Tasks []TaskSpec `json:"tasks" yaml:"tasks" doc:"none of them in the background"`
}

// stageOf and taskOf return the index of what has the name, or -1.
func (s *JobSpec) stageOf(name string) int {
	return slices.IndexFunc(s.Stages, func(one StageSpec) bool { return one.Name == name })
}

func (s *StageSpec) taskOf(name string) int {
	return slices.IndexFunc(s.Tasks, func(t TaskSpec) bool { return t.Name == name && name != "" })
}

// pipelineOf is the index of the pipeline that a stage is in, or -1. Without pipelines each
// stage is one.
func (s *JobSpec) pipelineOf(stage string) int {
	if len(s.Pipelines) == 0 {
		return s.stageOf(stage)
	}
	return slices.IndexFunc(s.Pipelines, func(p PipelineSpec) bool { return slices.Contains(p.Stages, stage) })
}

// selects reports whether the selectors select what has these properties and labels.
func selects(list []Selector, labels []Label, names []string, roles ...Role) bool {
	return slices.ContainsFunc(list, func(s Selector) bool { return s.selects(labels, names, roles) })
}

func (s *Selector) selects(labels []Label, names []string, roles []Role) bool {
	if s.None {
		return false
	}
	if s.Name != "" && !slices.Contains(names, s.Name) {
		return false
	}
	if s.Role != 0 && !sameRole(s.Role, roles...) {
		return false
	}
	return hasAll(labels, s.Labels)
}

// sameRole reports whether a node of one of the roles can be what is wanted: roles are equal,
// or one of them is ANY.
func sameRole(want Role, roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return want == r || want == AnyRole || r == AnyRole })
}
