package meta

import "confcenter/internal/jsontext"

// options says how a document takes over its bases. The zero value is CppCloud's
// way.
type options struct {
	deep  bool // merge objects at every depth
	chain bool // inherit from the bases' own bases as well
}

// everyFile is the key in inherit_options that stands for all files.
const everyFile = "*"

// options reads inherit_options into the nodes. A file's own section overrides
// the common one member by member.
func (p *parser) options(members []jsontext.Member) {
	if common, ok := jsontext.Find(members, everyFile); ok {
		p.defaults = p.section(common, options{})
	}
	for _, n := range p.nodes {
		n.options = p.defaults
	}
	for _, member := range members {
		name := Complete(string(member.Key))
		switch n := p.nodes[name]; {
		case string(member.Key) == everyFile:
		case n == nil || !n.listed:
			p.unknown.add(name, "inherit_options names it, but conf_inherit does not").at(partOptions, string(member.Key))
		default:
			n.options = p.section(member, p.defaults)
		}
	}
}

// section reads one member of inherit_options; o is what it overrides.
func (p *parser) section(member jsontext.Member, o options) options {
	name := FileName
	if key := string(member.Key); key != everyFile {
		name = Complete(key)
	}
	for _, option := range p.object(name, member, partOptions) {
		switch string(option.Key) {
		case "merge":
			p.merge(name, member, option, &o)
		case "chain":
			if option.Kind != jsontext.Bool {
				p.problems.add(name, `the option "chain" must be true or false`).at(partOptions, string(member.Key), "chain")
				continue
			}
			o.chain = string(option.Raw) == "true"
		default:
			p.unknown.add(name, "unknown option %q in inherit_options; there are merge and chain", option.Key).at(partOptions, string(member.Key), string(option.Key))
		}
	}
	return o
}

func (p *parser) merge(name string, section, option jsontext.Member, o *options) {
	if option.Kind == jsontext.String {
		switch string(jsontext.Unquote(option.Raw)) {
		case "deep":
			o.deep = true
			return
		case "shallow":
			o.deep = false
			return
		}
	}
	p.problems.add(name, `the option "merge" must be "deep" or "shallow"`).at(partOptions, string(section.Key), "merge")
}
