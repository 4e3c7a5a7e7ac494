package bench

import (
	"regexp"
	"slices"
	"strings"
)

// nodeMembers are what a placeholder may stand for, of a node.
var nodeMembers = []string{"Ip", "Host", "Id", "BindAddr"}

// placeholder is what stands in a specification for something of the node with that name.
func placeholder(name, member string) string { return "{{.Nodes." + name + "." + member + "}}" }

// known replaces the placeholders by what is known of the assigned nodes.
func known(nodes []assigned) *strings.Replacer {
	var pairs []string
	for _, n := range nodes {
		for i, value := range []string{n.Info.Addr.IP, n.Info.Property.Host, n.ID, n.Info.Addr.BindAddr} {
			pairs = append(pairs, placeholder(n.Name, nodeMembers[i]), value)
		}
	}
	return strings.NewReplacer(pairs...)
}

var (
	// braced is what may be meant as a placeholder: all that is in two braces, and what begins like one
	// in a single brace. Programs have templates of their own, such as docker's {{.State.Running}}.
	braced = regexp.MustCompile(`(?i)\{\{[^{}]*|\{\s*\.nodes?\.[^{}]*`)
	// ofNodes is what says that it is one.
	ofNodes = regexp.MustCompile(`(?i)(^|[^\pL\pN_.])\.?(nodes([^\pL\pN_]|$)|node\.)`)
)

// spelt leaves out the placeholders of a text that are replaced.
func (s *JobSpec) spelt() *strings.Replacer {
	var pairs []string
	for _, a := range s.NodeAssignments {
		for _, member := range nodeMembers {
			pairs = append(pairs, placeholder(a.Properties.Name, member), "")
		}
	}
	return strings.NewReplacer(pairs...)
}

// misspelt are the placeholders in the rest of a text.
func (s *JobSpec) misspelt(rest string) (list []string) {
	for _, found := range braced.FindAllString(rest, -1) {
		if inner, double := strings.CutPrefix(found, "{{"); !double || ofNodes.MatchString(inner) || s.likeOne(inner) {
			list = append(list, found)
		}
	}
	return list
}

// likeOne reports whether what is in braces has the parts of a placeholder, whatever it begins with.
func (s *JobSpec) likeOne(inner string) bool {
	parts := strings.Split(strings.Trim(inner, ". \t\n"), ".")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return len(parts) == 3 && (slices.ContainsFunc(s.NodeAssignments, func(a NodeAssignment) bool { return a.Properties.Name == parts[1] }) ||
		slices.ContainsFunc(nodeMembers, func(m string) bool { return strings.EqualFold(m, parts[2]) }))
}

// placeholders adds those of a task that are misspelt, and those where none is replaced.
func (p *problems) placeholders(where string, job *JobSpec, t *TaskSpec) {
	var texts []string
	for _, e := range t.Env {
		texts = append(texts, e.V)
		p.noPlaceholder(where, "the name of a variable", e.K)
	}
	if t.Shell != nil {
		texts = append(texts, t.Shell.Command)
	}
	if t.Exec != nil {
		texts = append(append(texts, t.Exec.Command), t.Exec.Args...)
	}
	if t.Docker != nil {
		p.noPlaceholder(where, "the name of an image", t.Docker.Image)
	}
	if p.spelt == nil {
		p.spelt = job.spelt()
	}
	for _, text := range texts {
		for _, found := range job.misspelt(p.spelt.Replace(text)) {
			p.add("%s: %.60q is no placeholder: write {{.Nodes.NAME.Ip}}, or Host, Id or BindAddr in place of Ip, without blanks, and as NAME that of a nodeAssignment", where, found)
		}
	}
}

func (p *problems) noPlaceholder(where, what, text string) {
	if found := braced.FindString(text); found != "" {
		p.add("%s: %.60q is in %s, where nothing is replaced", where, found, what)
	}
}
