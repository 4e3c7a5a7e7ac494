package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of what is looked at in a specification.
const (
	maxProblems = 50     // that are listed
	maxProblem  = 300    // bytes of one
	maxStages   = 256    // of a job
	maxParsed   = 10_000 // nodes, stages, tasks, and members of pipelines together
)

// ParseSpec reads a specification. Its error lists everything that is wrong with it.
func ParseSpec(raw string) (*JobSpec, error) {
	parsing.Lock()
	defer parsing.Unlock()
	var p problems
	spec := p.parse(raw)
	if len(p.list) == 0 {
		return spec, nil
	}
	if p.more > 0 {
		p.list = append(p.list, fmt.Sprintf("and %d more", p.more))
	}
	return nil, refuse(InvalidConfig, "%s", strings.Join(p.list, "; "))
}

func (p *problems) parse(raw string) *JobSpec {
	if !utf8.ValidString(raw) {
		p.add("the text is not UTF-8")
		return nil
	}
	if err := checkSyntax(raw); err != nil {
		p.add("%s", err)
		return nil
	}
	spec := &JobSpec{}
	d := yaml.NewDecoder(strings.NewReader(raw))
	d.KnownFields(true)
	var wrong *yaml.TypeError
	switch err := d.Decode(spec); {
	case errors.As(err, &wrong): // it decoded all the rest
		for _, text := range wrong.Errors {
			p.add("%s", text)
		}
	case err != nil:
		p.add("%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.add("there is more than one document")
	}
	p.job(spec)
	return spec
}

// problems is what is wrong with a specification.
type problems struct {
	list []string // at most maxProblems
	more int      // that are not listed

	speller *speller // of the job; nil: not made yet
}

func (p *problems) add(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, brief(fmt.Sprintf(format, args...), maxProblem))
}

// unique adds the names that occur more than once, and those that are not valid.
func (p *problems) unique(what string, names []string, optional bool) {
	seen := map[string]int{}
	for _, name := range names {
		if name == "" && optional {
			continue
		}
		if err := checkName(what, name); err != nil {
			p.add("%s", err)
		} else if seen[name]++; seen[name] == 2 {
			p.add("%s %s is there more than once", what, name)
		}
	}
}

func (p *problems) job(s *JobSpec) {
	if s.ID != "" {
		p.add("id is set by the server: leave it out")
	}
	if s.Name == "" {
		p.add("the job has no name")
	}
	if n := s.size(); n > maxParsed {
		p.add("the job has %d nodes, stages, tasks, and members of pipelines together, the limit is %d: split it", n, maxParsed)
		return
	}
	if n := len(s.Stages); n > maxStages {
		p.add("the job has %d stages, the limit is %d: split it", n, maxStages)
		return
	}
	p.assignments(s)
	if len(s.Stages) == 0 {
		p.add("the job has no stages")
	}
	names := make([]string, len(s.Stages))
	for i := range s.Stages {
		names[i] = s.Stages[i].Name
	}
	p.unique("stage", names, false)
	for i := range s.Stages {
		p.stage(s, &s.Stages[i])
	}
	var pipelines []string
	var members [][]string
	for _, one := range s.Pipelines {
		pipelines, members = append(pipelines, one.Name), append(members, one.Stages)
	}
	if members == nil { // one after another
		for _, name := range names {
			s.Pipelines = append(s.Pipelines, PipelineSpec{Stages: []string{name}})
		}
		return
	}
	p.unique("pipeline", pipelines, true)
	p.members("", "stage", names, members)
}

// size is how much there is to look at.
func (s *JobSpec) size() int {
	n := len(s.NodeAssignments) + len(s.Stages)
	for _, a := range s.NodeAssignments {
		n += len(a.Selectors)
	}
	for _, p := range s.Pipelines {
		n += 1 + len(p.Stages)
	}
	for _, stage := range s.Stages {
		n += len(stage.Tasks) + len(stage.Selectors)
		for _, p := range stage.Pipelines {
			n += 1 + len(p.Tasks)
		}
	}
	return n
}

// members checks that pipelines have each of the names once, and nothing else.
func (p *problems) members(where, what string, names []string, pipelines [][]string) {
	times, known := map[string]int{}, map[string]bool{}
	for _, name := range names {
		known[name] = name != ""
	}
	for i, members := range pipelines {
		if len(members) == 0 {
			p.add("%spipeline %d has no %ss", where, i, what)
		}
		for _, name := range members {
			if times[name]++; !known[name] {
				p.add("%spipeline %d names %s %.40q, which does not exist", where, i, what, name)
			} else if times[name] == 2 {
				p.add("%s%s %.40s is in the pipelines more than once", where, what, name)
			}
		}
	}
	for i, name := range names {
		if name == "" {
			p.add("%s%s %d needs a name, because there are pipelines", where, what, i)
		} else if times[name] == 0 {
			p.add("%s%s %.40s is in no pipeline", where, what, name)
		}
	}
}

func (p *problems) assignments(s *JobSpec) {
	if n := len(s.NodeAssignments); n == 0 || n > maxJobNodes {
		p.add("the job asks for %d nodes: give 1 to %d nodeAssignments", n, maxJobNodes)
	}
	var names []string
	for i := range s.NodeAssignments {
		a := &s.NodeAssignments[i]
		if a.Name != "" && a.Properties.Name != "" || a.Role != 0 && a.Properties.Role != 0 {
			p.add("nodeAssignment %d has name or role twice: beside properties and in it", i)
		}
		a.Properties.Name = cmp.Or(a.Properties.Name, a.Name)
		a.Properties.Role = cmp.Or(a.Properties.Role, a.Role)
		a.Name, a.Role = "", 0
		if len(a.Selectors) == 0 && a.Properties.Role == 0 {
			p.add("nodeAssignment %d has neither selectors nor a role", i)
		}
		p.selectors(fmt.Sprintf("nodeAssignment %d", i), a.Selectors)
		names = append(names, a.Properties.Name)
	}
	p.unique("nodeAssignment", names, false)
}

func (p *problems) selectors(where string, list []Selector) {
	for i, s := range list {
		some := s.Name != "" || s.Role != 0 || len(s.Labels) > 0
		if s.All && s.None || (s.All || s.None) == some {
			p.add("%s: selector %d: give all, none, or any of name, role and labels", where, i)
		}
	}
}

func (p *problems) stage(job *JobSpec, s *StageSpec) {
	name := "stage " + brief(s.Name, maxName)
	where := name + ": "
	p.selectors(name, s.Selectors)
	if !p.reaches(job, s) {
		p.add("%sits selectors select no node of the job", where)
	}
	names, background := make([]string, len(s.Tasks)), false
	own := job.pipelineOf(s.Name)
	for i := range s.Tasks {
		names[i] = s.Tasks[i].Name
		background = background || s.Tasks[i].Background
		if stop := s.Tasks[i].Stopper; stop != nil && own <= job.pipelineOf(stop.Stage) {
			p.add("%stask %d stops stage %.40q, which is in no earlier pipeline", where, i, stop.Stage)
		}
		p.task(fmt.Sprintf("%stask %d", where, i), job, &s.Tasks[i])
	}
	if len(s.Tasks) == 0 {
		p.add("%sit has no tasks", where)
	}
	if background != s.Background {
		p.add("%sit is %s the background, and %s of its tasks is", where, map[bool]string{true: "in", false: "not in"}[s.Background], map[bool]string{true: "one", false: "none"}[background])
	}
	p.unique(where+"task", names, true)
	var pipelines []string
	var members [][]string
	for _, one := range s.Pipelines {
		pipelines, members = append(pipelines, one.Name), append(members, one.Tasks)
	}
	if members != nil {
		p.unique(where+"pipeline", pipelines, true)
		p.members(where, "task", names, members)
	}
}

// reaches reports whether a stage may have a node. Of labels it is not known yet.
func (p *problems) reaches(job *JobSpec, s *StageSpec) bool {
	if len(s.Selectors) == 0 {
		return true
	}
	for _, one := range s.Selectors {
		if one.None {
			return true
		}
		one.Labels = nil
		for _, a := range job.NodeAssignments {
			if one.selects(nil, []string{a.Properties.Name}, []Role{a.Properties.Role}) || a.Properties.Role == 0 && one.Name == "" {
				return true
			}
		}
	}
	return false
}

func (p *problems) task(where string, job *JobSpec, t *TaskSpec) {
	given := map[TaskDriver]bool{Stopper: t.Stopper != nil, Shell: t.Shell != nil, Exec: t.Exec != nil, Docker: t.Docker != nil}
	for driver := Stopper; driver <= Docker; driver++ {
		if given[driver] != (driver == t.Driver) {
			p.add("%s: its driver is %s, and %s is %s", where, t.Driver, strings.ToLower(driver.String()), map[bool]string{true: "given", false: "not given"}[given[driver]])
		}
	}
	if t.Driver == 0 {
		p.add("%s: it has no driver: give one of %s", where, strings.Join(t.Driver.Names()[1:], ", "))
	}
	if t.Shell != nil && t.Shell.Command == "" || t.Exec != nil && t.Exec.Command == "" || t.Docker != nil && t.Docker.Image == "" {
		p.add("%s: it has no command or image", where)
	}
	p.placeholders(where, job, t)
	if t.Stopper != nil {
		p.stopper(where, job, t)
	}
	if t.Ready == nil {
		return
	}
	if !t.Background || len(t.Ready.Tasks) == 0 {
		p.add("%s: ready is for a background task, and has at least one task", where)
	}
	for i := range t.Ready.Tasks {
		ready := &t.Ready.Tasks[i]
		if ready.Background || ready.Ready != nil || ready.Driver == Stopper {
			p.add("%s: ready task %d runs in the background, or stops something", where, i)
		}
		if ready.Ready == nil {
			p.task(fmt.Sprintf("%s: ready task %d", where, i), job, ready)
		}
	}
}

func (p *problems) stopper(where string, job *JobSpec, t *TaskSpec) {
	if t.Background {
		p.add("%s: a stopper is not in the background", where)
	}
	at := job.stageOf(t.Stopper.Stage)
	if at < 0 || !job.Stages[at].Background {
		p.add("%s: it stops stage %.40q, which is not a background stage of the job", where, t.Stopper.Stage)
		return
	}
	if t.Stopper.Task == "" {
		return
	}
	if one := job.Stages[at].taskOf(t.Stopper.Task); t.Stopper.All || one < 0 || !job.Stages[at].Tasks[one].Background {
		p.add("%s: it stops task %.40q of stage %.40q, which is not a background task of it, or all", where, t.Stopper.Task, t.Stopper.Stage)
	}
}

func renderTasks(tasks []TaskSpec, with *strings.Replacer) []TaskSpec {
	tasks = slices.Clone(tasks)
	for i := range tasks {
		t := &tasks[i]
		t.Env = slices.Clone(t.Env)
		for k := range t.Env {
			t.Env[k].V = with.Replace(t.Env[k].V)
		}
		if t.Shell != nil {
			t.Shell = &ShellSpec{with.Replace(t.Shell.Command)}
		}
		if t.Exec != nil {
			exec := ExecSpec{with.Replace(t.Exec.Command), slices.Clone(t.Exec.Args)}
			for k := range exec.Args {
				exec.Args[k] = with.Replace(exec.Args[k])
			}
			t.Exec = &exec
		}
		if t.Ready != nil {
			t.Ready = &ReadySpec{renderTasks(t.Ready.Tasks, with)}
		}
	}
	return tasks
}
