package doclog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"confcenter/codes"
	"confcenter/kv"
)

var errMissing = errors.New("it is missing")

// lookUp reads one entry; nil: there is none.
func lookUp(ctx context.Context, store kv.Archive, ns, key string) (*kv.Entry, error) {
	page, err := store.ListArchive(ctx, kv.List{NS: ns, Prefix: key, Limit: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].Key != key {
		return nil, err
	}
	return page.Entries[0], nil
}

// archived reads one entry that there must be.
func (l *Log) archived(ctx context.Context, ns, key string) (*kv.Entry, error) {
	e, err := lookUp(ctx, l.store, ns, key)
	if e == nil && err == nil {
		err = damaged(key, errMissing)
	}
	return e, err
}

// Versions lists at most limit versions of a name that are older than version before, newest
// first; before 0: from the newest on. Long files are not read.
func (l *Log) Versions(ctx context.Context, name string, before int64, limit int) (list []Version, err error) {
	d, err := l.Document(name)
	if err != nil {
		return nil, err
	}
	if before <= 0 || before > d.N {
		before = d.N + 1
	}
	first := max(1, before-int64(limit))
	for from := first; from < before; {
		page, err := l.listVersions(ctx, name, from, int(before-from))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		list = append(list, page...)
		from = page[len(page)-1].N + 1
	}
	for len(list) > 0 && list[len(list)-1].N >= before { // versions of a change that does not count
		list = list[:len(list)-1]
	}
	slices.Reverse(list)
	return list, nil
}

// listVersions lists some versions from number from on, oldest first.
func (l *Log) listVersions(ctx context.Context, name string, from int64, limit int) ([]Version, error) {
	page, err := l.store.ListArchive(ctx, kv.List{NS: versions, Prefix: name + "//", After: versionKey(name, from-1), Limit: limit})
	if err != nil {
		return nil, err
	}
	list := make([]Version, len(page.Entries))
	for i, e := range page.Entries {
		if list[i], err = decodeVersion(e); err != nil {
			return nil, err
		}
		if v := &list[i]; v.Staged {
			if i > 0 && list[i-1].Seq == v.Seq {
				v.Revision = list[i-1].Revision
			} else if change, err := l.Change(ctx, v.Seq); err == nil {
				v.Revision = change.Revision
			} else {
				return nil, err
			}
		}
	}
	return list, nil
}

// Version returns a version with its file. codes.Compacted: it is no longer kept;
// codes.NotFound: there has been none.
func (l *Log) Version(ctx context.Context, name string, n int64) (Version, error) {
	d, err := l.Document(name)
	if err != nil {
		return Version{}, err
	}
	v, err := l.Find(ctx, &d, n)
	if err != nil {
		return v, err
	}
	return v, l.Fill(ctx, &v)
}

// Find is Version without the file, if that is long.
func (l *Log) Find(ctx context.Context, d *Document, n int64) (Version, error) {
	if n < 1 || n > d.N {
		return Version{}, codes.Errorf(codes.NotFound, "%s has no version %d; the newest is %d", d.Name, n, d.N)
	}
	list, err := l.listVersions(ctx, d.Name, n, 1)
	switch {
	case err != nil:
		return Version{}, err
	case len(list) == 0 || list[0].N != n:
		oldest := ""
		if len(list) > 0 {
			oldest = fmt.Sprintf("; the oldest that is was made by revision %d", list[0].Revision)
		}
		return Version{}, codes.Errorf(codes.Compacted, "version %d of %s is no longer kept%s", n, d.Name, oldest)
	}
	return list[0], nil
}

// Revision is that of the newest change of anything in the store.
func (l *Log) Revision() kv.Revision { return l.store.Revision() }

// Fill reads the file of a version that was listed or found.
func (l *Log) Fill(ctx context.Context, v *Version) error {
	if v.Deleted {
		return nil
	}
	if len(v.Chunks) > 0 {
		v.File = make([]byte, 0, v.Size)
	}
	for _, digest := range v.Chunks {
		e, err := l.archived(ctx, chunks, digest.String())
		if errors.Is(err, errMissing) { // the version may have been removed since it was found
			if _, gone := l.Find(ctx, &Document{Name: v.Name, N: v.N}, v.N); gone != nil {
				return gone
			}
		}
		if err != nil {
			return err
		}
		v.File = append(v.File, e.Value.Data...)
	}
	if DigestOf(v.File) != v.Hash {
		return damaged(versionKey(v.Name, v.N), errors.New("the file is not what was written"))
	}
	return nil
}

// Later returns the number of the first version of a document that was made after a revision; one
// more than the newest if there is none. Versions that are gone were made before any that is there.
func (l *Log) Later(ctx context.Context, d *Document, rev kv.Revision) (n int64, err error) {
	found := sort.Search(int(d.N), func(i int) bool {
		list, e := l.listVersions(ctx, d.Name, int64(i)+1, 1)
		if e != nil || len(list) == 0 {
			err = errors.Join(err, e)
			return true
		}
		return list[0].N == int64(i)+1 && list[0].Revision > rev
	})
	return int64(found) + 1, err
}

// Around returns the version of a name that was current at a revision, as At does, and those that came
// next, oldest first, of which there are more if there is not the newest: mostly with one look. Long
// files of these are not read.
func (l *Log) Around(ctx context.Context, name string, rev kv.Revision) (at Version, next []Version, err error) {
	const look = 8
	d, err := l.Document(name)
	if err != nil || d.N == 0 {
		return at, nil, err
	}
	from := max(1, d.N-look+1)
	page, err := l.listVersions(ctx, name, from, int(d.N-from+1))
	if err != nil {
		return at, nil, err
	}
	if i := slices.IndexFunc(page, func(v Version) bool { return v.N > d.N }); i >= 0 { // of a change that does not count
		page = page[:i]
	}
	i := sort.Search(len(page), func(i int) bool { return page[i].Revision > rev })
	switch {
	case i > 0:
		at = page[i-1]
		err := l.Fill(ctx, &at)
		return at, page[i:], err
	case from == 1 && len(page) > 0 && page[0].N == 1:
		return at, page, nil
	}
	if at, err = l.At(ctx, name, rev); err == nil {
		next, err = l.After(ctx, name, at.N, look)
	}
	return at, next, err
}

// After lists at most limit versions of a name that are newer than version n, oldest first. Long
// files are not read.
func (l *Log) After(ctx context.Context, name string, n int64, limit int) ([]Version, error) {
	d, err := l.Document(name)
	if err != nil || n >= d.N {
		return nil, err
	}
	list, err := l.listVersions(ctx, name, n+1, int(min(int64(limit), d.N-n)))
	if err == nil && (len(list) == 0 || list[0].N != n+1) {
		err = codes.Errorf(codes.Compacted, "version %d of %s is no longer kept", n+1, name)
	}
	return list, err
}

// At returns the version of a name that was current at a revision, with its file. N is 0 if
// there was none. codes.Compacted: it is no longer kept.
func (l *Log) At(ctx context.Context, name string, rev kv.Revision) (v Version, err error) {
	d, err := l.Document(name)
	if err != nil || d.N == 0 {
		return v, err
	}
	later, err := l.Later(ctx, &d, rev)
	if err != nil || later == 1 {
		return Version{}, err
	}
	return l.Version(ctx, name, later-1)
}
