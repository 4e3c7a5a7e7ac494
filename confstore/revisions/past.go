package revisions

import (
	"bytes"
	"container/heap"
	"context"
	"maps"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/meta"
)

// past is the documents as they were, from a revision on forward to what they are now. It
// reads of the log what the filters make necessary.
type past struct {
	// set at the beginning
	ctx     context.Context
	log     *log.Log
	now     *Exact
	filters []kv.Filter
	most    int64 // see New

	docs  map[string]contents // that are others now
	rules *snapshot.Rules
	lines timelines // what is still to come
	made  int64     // bytes of merged contents, of the current revision
}

// changesSince makes the changes after a revision from the log, as far as it has them and none is too
// much.
func changesSince(ctx context.Context, log *log.Log, now *Exact, filters []kv.Filter, after kv.Revision, maxBytes int, most int64) (list []kv.Change, err error) {
	p := &past{ctx: ctx, log: log, now: now, filters: filters, most: most, docs: map[string]contents{}, rules: now.Snapshot.Rules()}
	if err := p.begin(after); err != nil {
		return nil, err
	}
	for size := 0; len(p.lines) > 0 && size < maxBytes; {
		change, err := p.step()
		if codes.Of(err) == codes.Compacted && len(list) > 0 {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if len(change.Events) > 0 {
			list = append(list, change)
			size += follow.Weight(&change)
		}
	}
	return list, nil
}

// begin goes back to what there was at a revision.
func (p *past) begin(after kv.Revision) error {
	rules := []*snapshot.Rules{p.now.Snapshot.Rules()}
	if p.inherits() && p.newer(meta.FileName, after) {
		older, err := p.olderRules(after)
		if err != nil {
			return err
		}
		rules = append(rules, older...)
		p.rules = older[0]
	}
	for name := range p.concerned(rules) {
		if !p.newer(name, after) {
			continue
		}
		v, next, err := p.log.Around(p.ctx, name, after)
		if err != nil {
			return err
		}
		p.docs[name] = versionContents(v)
		p.lines.add(name, p.upToNow(next))
	}
	return nil
}

// newer reports whether a document has versions after a revision.
func (p *past) newer(name string, after kv.Revision) bool {
	n := p.now.Snapshot.Node(name)
	return n.Known() && n.Revision(false) > after
}

// inherits reports whether a filter is about resolved documents.
func (p *past) inherits() bool {
	return slices.ContainsFunc(p.filters, func(f kv.Filter) bool { return f.NS != Own })
}

func (p *past) match(ns, name string) bool {
	return slices.ContainsFunc(p.filters, func(f kv.Filter) bool { return f.Match(ns, name) })
}

// olderRules are those in force at a revision, and all since.
func (p *past) olderRules(after kv.Revision) (list []*snapshot.Rules, err error) {
	v, err := p.log.At(p.ctx, meta.FileName, after)
	if err != nil {
		return nil, err
	}
	first, _ := snapshot.ParseRules(nil)
	if text := versionContents(v).text; text != nil {
		if r, err := snapshot.ParseRules(text); err == nil {
			first = r
		}
	}
	list = append(list, first)
	lines := timelines{}
	page, err := p.read(meta.FileName, v.N)
	if err != nil {
		return nil, err
	}
	lines.add(meta.FileName, page)
	for len(lines) > 0 {
		_, c, err := lines.next(p)
		if err != nil {
			return nil, err
		}
		if r, err := snapshot.ParseRules(c.text); err == nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// concerned are the documents that have a say in what matches a filter.
func (p *past) concerned(list []*snapshot.Rules) map[string]struct{} {
	names := map[string]struct{}{}
	resolved := func(name string) {
		names[name] = struct{}{}
		for _, r := range list {
			bases, _ := r.Meta.Bases(name)
			for _, base := range bases {
				names[base] = struct{}{}
			}
		}
	}
	if p.inherits() {
		names[meta.FileName] = struct{}{}
	}
	for _, f := range p.filters {
		add := func(name string) { names[name] = struct{}{} }
		if f.NS != Own {
			add = resolved
		}
		if f.Exact {
			add(f.Text)
			continue
		}
		every := [][]string{p.now.Snapshot.Names()}
		for _, r := range list {
			every = append(every, r.Meta.Names())
		}
		for _, list := range every {
			i, _ := slices.BinarySearch(list, f.Text)
			for ; i < len(list) && strings.HasPrefix(list[i], f.Text); i++ {
				add(list[i])
			}
		}
	}
	return names
}

// step takes what the next revision changes, and returns what that means for the filters.
func (p *past) step() (kv.Change, error) {
	rev := p.lines[0].page[0].Revision
	edits := map[string]contents{}
	for len(p.lines) > 0 && p.lines[0].page[0].Revision == rev {
		name, c, err := p.lines.next(p)
		if err != nil {
			return kv.Change{}, err
		}
		if c.resealed { // which is no change
			p.docs[name] = c
			continue
		}
		if was := p.own(name); c.text != nil && was != nil && was.text != nil && bytes.Equal(c.text, jsontext.Readable(was.text)) {
			c.text = was.text // it is spelled differently, which is no change
		}
		edits[name] = c
	}
	next := p.rules
	if c, changed := edits[meta.FileName]; changed {
		if r, err := snapshot.ParseRules(c.text); err == nil {
			next = r
		}
	}
	return p.apply(rev, edits, next)
}

// apply makes edits what there is, and returns what that means for the filters.
func (p *past) apply(rev kv.Revision, edits map[string]contents, next *snapshot.Rules) (kv.Change, error) {
	p.made = 0
	type id struct{ ns, name string }
	before := map[id]contents{}
	note := func(ns, name string) {
		if p.match(ns, name) {
			before[id{ns, name}] = p.contents(ns, name)
		}
	}
	for name := range edits {
		note(Own, name)
		note(Resolved, name)
		for _, r := range [...]*snapshot.Rules{p.rules, next} {
			for _, heir := range r.Heirs[name] {
				note(Resolved, heir)
			}
		}
	}
	if next != p.rules {
		for _, r := range [...]*snapshot.Rules{p.rules, next} {
			for _, name := range r.Meta.Names() {
				if p.rules.ListDigest(name) != next.ListDigest(name) {
					note(Resolved, name)
				}
			}
		}
	}
	maps.Copy(p.docs, edits)
	p.rules = next
	change := kv.Change{Revision: rev}
	for of, was := range before {
		change.Events = appendEvent(change.Events, rev, of.ns, of.name, was, p.contents(of.ns, of.name))
	}
	if p.made > p.most {
		return kv.Change{}, codes.Errorf(codes.Compacted, "what revision %d makes of documents that inherit takes more than %d bytes; watch fewer of them", rev, p.most)
	}
	sortEvents(change.Events)
	return change, nil
}

// own are a document's own contents at this point, nil if there is no such document.
func (p *past) own(name string) *contents {
	if c, past := p.docs[name]; past {
		if c.rev == 0 {
			return nil
		}
		return &c
	}
	n := p.now.Snapshot.Node(name)
	if !n.Known() {
		return nil
	}
	c := contentsOf(Own, n)
	return &c
}

func (p *past) contents(ns, name string) contents {
	own := p.own(name)
	if ns == Own {
		if own == nil {
			return contents{}
		}
		return *own
	}
	bases, _ := p.rules.Meta.Bases(name)
	var parts []contents
	for _, base := range bases {
		if c := p.own(base); c != nil {
			parts = append(parts, *c)
			p.made += int64(len(c.text))
		}
	}
	if own != nil && len(parts) > 0 {
		p.made += int64(len(own.text))
	}
	if p.made > p.most {
		return contents{} // of a revision that apply refuses
	}
	return merged(own, parts, p.rules.Meta.Deep(name))
}

func versionContents(v log.Version) contents {
	c := contents{mtime: v.Served, rev: v.Revision, resealed: v.Resealed}
	if v.N > 0 && !v.Deleted {
		c.text = jsontext.Compact(v.File)
	}
	return c
}

// timeline is the versions of one document that are still to come; there is at least one in page.
type timeline struct {
	name string
	page []log.Version
}

// timelines are a heap by the revision that comes next.
type timelines []*timeline

func (t timelines) Len() int           { return len(t) }
func (t timelines) Less(i, j int) bool { return t[i].page[0].Revision < t[j].page[0].Revision }
func (t timelines) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timelines) Push(x any)        { *t = append(*t, x.(*timeline)) }
func (t *timelines) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// versionPage is how many versions of a document are read at a time.
const versionPage = 8

// read is the versions that follow number n, as far as they are no newer than now.
func (p *past) read(name string, n int64) ([]log.Version, error) {
	page, err := p.log.After(p.ctx, name, n, versionPage)
	return p.upToNow(page), err
}

func (p *past) upToNow(page []log.Version) []log.Version {
	if i := slices.IndexFunc(page, func(v log.Version) bool { return v.Revision > p.now.Revision }); i >= 0 {
		return page[:i]
	}
	return page
}

// add adds the versions of a document that come next.
func (t *timelines) add(name string, page []log.Version) {
	if len(page) > 0 {
		heap.Push(t, &timeline{name, page})
	}
}

// next takes the next version of all.
func (t *timelines) next(p *past) (name string, c contents, err error) {
	line := (*t)[0]
	v := line.page[0]
	if v.File == nil && !v.Deleted {
		if v, err = p.log.Version(p.ctx, line.name, v.N); err != nil {
			return "", c, err
		}
	}
	line.page = line.page[1:]
	if len(line.page) == 0 {
		if line.page, err = p.read(line.name, v.N); err != nil {
			return "", c, err
		}
	}
	if len(line.page) == 0 {
		heap.Pop(t)
	} else {
		heap.Fix(t, 0)
	}
	return line.name, versionContents(v), nil
}
