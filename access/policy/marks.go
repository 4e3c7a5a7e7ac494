package policy

import (
	"sort"
	"strings"
)

// Marks say which things change only with another person's approval, no matter who asks. They never
// change, and the nil Marks are none.
//
// Where anything is marked, so are all roles, and with them tokens: a person who could take
// a second name, or take marks back, would be two persons.
type Marks struct {
	marked *Permits // by the verb Approve
}

// marksOf are those of roles; nil: there are none.
func marksOf(roles []*Role) *Marks {
	var list []says
	for _, role := range roles {
		for _, p := range role.marks {
			list = append(list, says{p, Approve, 0})
		}
	}
	if list == nil {
		return nil
	}
	list = append(list, says{pattern{class: Roles, many: true}, Approve, 0})
	return &Marks{newPermits(list)}
}

// Marks are what all roles mark together; nil: nothing.
func (p *Policy) Marks() *Marks { return p.marks }

// Has reports whether a thing is marked, by its name as [AppendName] makes it. It allocates nothing.
func (m *Marks) Has(c Class, name []byte) bool { return m != nil && m.marked.May(Approve, c, name) }

// Among reports whether something may be marked whose name begins with prefix.
func (m *Marks) Among(c Class, prefix string) bool {
	if m == nil {
		return false
	}
	nodes := m.marked.classes[c].nodes
	i := sort.Search(len(nodes), func(i int) bool { return nodes[i].text >= prefix })
	return i < len(nodes) && strings.HasPrefix(nodes[i].text, prefix) || m.Has(c, []byte(prefix))
}

// HasMarks reports whether the role, which may be nil, marks anything.
func (r *Role) HasMarks() bool { return r != nil && len(r.marks) > 0 }

// MarkEverything is a role that marks all that can be. It stands for one that cannot be understood.
func MarkEverything() *Role {
	r, err := ParseRole("what cannot be read", []byte(`{"approval": ["*"]}`))
	if err != nil {
		panic(err)
	}
	return r
}
