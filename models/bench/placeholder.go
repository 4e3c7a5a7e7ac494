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

// escaped stands in a specification for two opening braces that begin no placeholder, as in Go's own templates.
const escaped = `{{"{{"}}`

// known replaces the placeholders by what is known of the assigned nodes.
func known(nodes []assigned) *strings.Replacer {
	pairs := []string{escaped, "{{"}
	for _, n := range nodes {
		for i, value := range []string{n.Info.Addr.IP, n.Info.Property.Host, n.ID, n.Info.Addr.BindAddr} {
			pairs = append(pairs, placeholder(n.Name, nodeMembers[i]), value)
		}
	}
	return strings.NewReplacer(pairs...)
}

var (
	// braced is what may be meant as a placeholder: all that begins with two braces, and what begins
	// like one in a single brace.
	braced = regexp.MustCompile(`(?i)\{\{[^{}]*(\}\})?|\{\s*\.nodes?\.[^{}]*`)
	// ofNodes is what says of something that does not end as it should that it is one.
	ofNodes = regexp.MustCompile(`(?i)(^|[^\pL\pN_.])\.?(nodes([^\pL\pN_]|$)|node\.)`)
)

// ofOthers is what begins with two braces for another program, as far as they close.
var ofOthers = regexp.MustCompile(others + `[^{}]*(\}\})?`)

// nearly is what is written as a placeholder but for its brackets, with the name of its node. Paths of
// other languages look like one, (db.id) in SQL and [.nodes.db.ip] in jq: without Nodes, two brackets and
// the right letters say that it is none of these, and in a single one the right letters of Nodes or of
// the member.
var nearly = func() *regexp.Regexp {
	const opens, closes, by = `[{\[(<%｛［（【]`, `[}\])>%｝］）】]`, `[^\pL\pN{}]{1,4}`
	const blank, name = `[\s.$]*`, `([^\s/{}\[\]()<>]+?)`
	member := "(?:" + strings.Join(nodeMembers, "|") + ")"
	return regexp.MustCompile(opens + blank + `Nodes?` + by + name + by + `\pL+[\s.]*` + closes + `+|` +
		opens + blank + `(?i:nodes?)` + by + name + by + member + `[\s.]*` + closes + `+|` +
		`\$\.?Nodes?` + by + name + by + member + `\b|` +
		opens + blank + opens + blank + `(?:Nodes?` + by + `)?` + name + by + member + `\s*` + closes + `\s*` + closes)
}()

// half is what is written as a placeholder but for its opening braces, or with braces doubled around it.
var half = regexp.MustCompile(`\.?\b(?:Nodes|Job)\.[^\s{}"',]*\s*\}\}|\}\}\s*\.?(?:Nodes|Job)\.[^\s{}"',]*\s*\{\{|\{\{\s*` + stand + `|` + stand + `\s*\}\}`)

// halves are those of a text. Objects of JSON and others end in two braces, too: what closes braces that
// were opened before, or opens some that are closed, is none.
func halves(text string) (list []string) {
	for _, at := range half.FindAllStringIndex(text, -1) {
		found, before, after := text[at[0]:at[1]], text[:at[0]], text[at[1]:]
		closes, opens := strings.HasSuffix(found, "}}"), strings.HasPrefix(found, "{{")
		if closes && strings.Count(before, "{")-strings.Count(before, "}") >= 2 || opens && strings.Count(after, "}")-strings.Count(after, "{") >= 2 {
			continue
		}
		list = append(list, strings.ReplaceAll(found, stand, "…"))
	}
	return list
}

// stand is what a placeholder that is replaced leaves in the text where others are looked for.
const stand = "\x00"

// others is what escaped leaves there.
const others = "\x01"

// speller finds the placeholders of a job that are misspelt.
type speller struct {
	good  *strings.Replacer
	nodes map[string]bool // by name
}

func (s *JobSpec) speller() *speller {
	pairs, nodes := []string{escaped, others}, map[string]bool{}
	for _, a := range s.NodeAssignments {
		nodes[a.Properties.Name] = true
		for _, member := range nodeMembers {
			pairs = append(pairs, placeholder(a.Properties.Name, member), stand)
		}
	}
	return &speller{strings.NewReplacer(pairs...), nodes}
}

// misspelt are the placeholders of a text that are not replaced.
func (by *speller) misspelt(text string) (list []string) {
	rest := braced.ReplaceAllStringFunc(by.good.Replace(text), func(found string) string {
		inner, double := strings.CutPrefix(found, "{{")
		inner, closed := strings.CutSuffix(inner, "}}")
		if double && !(closed && strings.TrimSpace(inner) != "") && !ofNodes.MatchString(inner) && !by.likeOne(inner) {
			return found
		}
		list = append(list, strings.ReplaceAll(found, stand, "…"))
		return others
	})
	rest = ofOthers.ReplaceAllString(rest, others)
	list = append(list, halves(rest)...)
	for _, found := range nearly.FindAllStringSubmatch(rest, -1) {
		if slices.ContainsFunc(found[1:], func(name string) bool { return by.nodes[name] }) {
			list = append(list, found[0])
		}
	}
	return list
}

// likeOne reports whether what is in braces has the parts of a placeholder, whatever it begins with.
func (by *speller) likeOne(inner string) bool {
	parts := strings.Split(strings.Trim(inner, ". \t\n"), ".")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return len(parts) == 3 && (by.nodes[parts[1]] || slices.ContainsFunc(nodeMembers, func(m string) bool { return strings.EqualFold(m, parts[2]) }))
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
	if p.speller == nil {
		p.speller = job.speller()
	}
	for _, text := range texts {
		for _, found := range p.speller.misspelt(text) {
			p.add("%s: %.60q is no placeholder: write {{.Nodes.NAME.Ip}}, or Host, Id or BindAddr in place of Ip, without blanks, and as NAME that of a nodeAssignment; braces for another program begin with %s", where, found, escaped)
		}
	}
}

func (p *problems) noPlaceholder(where, what, text string) {
	if found := braced.FindString(text); found != "" {
		p.add("%s: %.60q is in %s, where nothing is replaced", where, found, what)
	}
}
