package guard

import (
	"cmp"
	"math"
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
)

// some needs what a page of keys tells. The page has what the caller may read, see [Caller.Page], so
// it is refused only if that can be nothing: by the names in the request, whatever there is.
func (c *Caller) some(t *op.Thing) error {
	ns, prefix := t.Part(0), t.Part(1)
	err := c.Needs(op.Keys(t.Do, op.Every, ns, prefix))
	switch {
	case err == nil:
		return nil
	case ns == kv.ConfigNamespace:
		for _, class := range [...]policy.Class{policy.Config, policy.Roles} {
			if c.Permits.Some(policy.History, class) && c.Permits.Some(policy.Read, class) {
				return nil
			}
		}
	case kv.Guarded(ns) == "":
		if _, some := c.readable(&kv.List{NS: ns, Prefix: prefix}, prefix); some {
			return nil
		}
	}
	return err
}

// Lists reports whether the caller may read all that a list could have, so that nothing is left out.
func (c *Caller) Lists(l *kv.List) bool {
	return c.Sees(op.Keys(policy.Read, op.Every, l.NS, l.Prefix))
}

// lists reports whether a list can have anything that the caller may read.
func (c *Caller) lists(l *kv.List) bool { return c.Sees(op.Keys(policy.Read, op.Any, l.NS, l.Prefix)) }

// readable is the first key of a list, from one on, that the caller may read, whether or not it is there.
func (c *Caller) readable(l *kv.List, from string) (key string, ok bool) {
	ns := string(policy.AppendName(nil, l.NS, ""))
	name, ok := c.Permits.Next(policy.Read, policy.KV, ns+from)
	if !ok || !strings.HasPrefix(name, ns+l.Prefix) {
		return "", false
	}
	return name[len(ns):], true
}

// Page is a page of a list that has been let through, or the number of its keys. Keys that the caller
// may not read are neither in it nor counted, and whether there are any makes no difference to it.
func (c *Caller) Page(view kv.View, l kv.List) (kv.Page, error) {
	if c.Lists(&l) {
		return view.List(l)
	}
	if l.CountOnly {
		keys, _, revision, err := c.count(view, l)
		return kv.Page{Revision: revision, Count: keys}, err
	}
	limit, most := cmp.Or(min(l.Limit, kv.MaxList), kv.MaxList), cmp.Or(l.MaxBytes, kv.MaxPage)
	told := kv.Page{Revision: view.Revision()}
	bytes := 0
	err := c.each(view, l, func(e *kv.Entry) bool {
		if len(told.Entries) == limit || bytes >= most {
			told.More = true
			return false
		}
		told.Entries, told.Count, bytes = append(told.Entries, e), told.Count+1, bytes+e.Size()
		return true
	})
	if err != nil {
		return kv.Page{}, err
	}
	return told, nil
}

// count says how many keys of a list the caller may read, and how many bytes these and their values have.
func (c *Caller) count(view kv.View, l kv.List) (keys, bytes int64, revision kv.Revision, err error) {
	l.CountOnly, l.After, l.MaxBytes = false, "", math.MaxInt
	err = c.each(view, l, func(e *kv.Entry) bool {
		keys, bytes = keys+1, bytes+int64(e.Size())
		return true
	})
	return keys, bytes, view.Revision(), err
}

// fewKeys is how many keys are read first where some were hidden: they may be all that is not.
const fewKeys = 16

// each calls fn for each key of a list that the caller may read, until it returns false. What is hidden
// of ordinary namespaces is passed over by what the roles say, so that it takes no longer the more there
// is of it; of what is known of documents, of which there are not so many, each is looked at.
func (c *Caller) each(view kv.View, l kv.List, fn func(e *kv.Entry) bool) error {
	l.Limit = fewKeys
	for {
		page, err := view.List(l)
		if err != nil {
			return err
		}
		passed := false
		for _, e := range page.Entries {
			if l.After = e.Key; c.Sees(op.Key(policy.Read, e.NS, e.Key)) {
				if !fn(e) {
					return nil
				}
				continue
			}
			if l.NS == kv.ConfigNamespace {
				continue
			}
			next, ok := c.readable(&l, e.Key)
			if !ok {
				return nil
			}
			l.After, passed = before(next), true
			break
		}
		switch {
		case passed:
			l.Limit = fewKeys
		case !page.More:
			return nil
		default:
			l.Limit = min(2*l.Limit, kv.MaxList)
		}
	}
}

// before is a text that comes before a key, and behind every other key that does: no key has a control
// character, or a byte that UTF-8 has not.
func before(key string) string {
	last := len(key) - 1
	if key[last] == 0 {
		return key[:last]
	}
	return key[:last] + string([]byte{key[last] - 1, 0xFF})
}

// How many namespaces are looked at for one list, and how many at a time.
const mostNames, namesAtOnce = 100_000, 1000

// Namespaces lists those of all behind a name in which there is something that the caller may read, at
// most limit, with how much of that there is. more: there are others. Nothing is told of the rest.
func (c *Caller) Namespaces(all interface {
	Namespaces(after string, limit int) ([]kv.Namespace, bool)
	View() kv.View
}, after string, limit int) (list []kv.Namespace, more bool, err error) {
	if c == nil {
		list, more = all.Namespaces(after, limit)
		return list, more, nil
	}
	view := all.View()
	defer view.Close()
	for looked := 0; looked < mostNames; {
		some, rest := all.Namespaces(after, max(limit+1, namesAtOnce))
		if looked += len(some); rest {
			after = some[len(some)-1].Name
		}
		for _, ns := range some {
			switch there, err := c.namespace(view, &ns); {
			case err != nil:
				return nil, false, err
			case there:
				list = append(list, ns)
			}
			if len(list) > limit {
				return list[:limit], true, nil
			}
		}
		if !rest {
			return list, false, nil
		}
	}
	if len(list) == 0 {
		return nil, false, codes.Errorf(codes.TooLarge, "more than %d namespaces come first that you may not read; ask for those behind a name, with after", mostNames)
	}
	return list, true, nil
}

// namespace reports whether there is something in a namespace that the caller may read, and makes ns
// say how much.
func (c *Caller) namespace(view kv.View, ns *kv.Namespace) (there bool, err error) {
	l := kv.List{NS: ns.Name}
	if c.Lists(&l) {
		return true, nil
	}
	if !c.lists(&l) {
		return false, nil
	}
	ns.Keys, ns.Bytes, _, err = c.count(view, l)
	return ns.Keys > 0, err
}

// Namespace reports whether there is something in a namespace that the caller may read.
func (c *Caller) Namespace(view kv.View, ns string) (bool, error) {
	l := kv.List{NS: ns, Limit: 1}
	if c.Lists(&l) {
		return true, nil
	}
	if !c.lists(&l) {
		return false, nil
	}
	page, err := c.Page(view, l)
	return len(page.Entries) > 0, err
}
