package confstore

import (
	"context"
	"slices"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/meta"
)

// sealFault is why a file that has a value to be sealed is not served. The file is a person's, and
// someone else may have read it already, so it is not sealed behind the owner's back.
const sealFault = "has a value to be sealed ($seal), and only writes through the server are sealed: write the file with `confcenter set`; everyone who could read it here may have seen the value"

// sealed replaces the values of a request that are to be sealed. From then on nothing knows them.
// The contents are JSON.
func (r *SetRequest) sealed(ring *secret.Ring) error {
	if !secret.Asks(r.Contents) {
		return nil
	}
	if r.Name == meta.FileName {
		return codes.Errorf(codes.BadRequest, "%s cannot have sealed values, because the server has to read it", meta.FileName)
	}
	contents, err := ring.Seal(secret.OfDocument+r.Name, r.Contents)
	if err != nil {
		return codes.Errorf(codes.Of(err), "contents of %q: %s", r.Name, codes.Message(err))
	}
	r.Contents = contents
	return nil
}

// conceal makes what identifies a request, which is remembered, tell nothing of the values in it that
// are to be sealed. What the job was given to identify it stays.
func (j *setJob) conceal(ring *secret.Ring) {
	if ring == nil {
		return // it will be refused
	}
	for i := range j.reqs {
		if secret.Mentions(j.reqs[i].Contents) {
			q := j.question()
			if j.asked == q {
				return
			}
			j.asked = ring.Digest(q[:])
			return
		}
	}
}

// asksToSeal reports whether a file has a value to be sealed; if it is no JSON, whether it may have one.
func asksToSeal(file []byte) bool {
	if !secret.Mentions(file) {
		return false
	}
	_, err := jsontext.Check(file)
	return err != nil || secret.Asks(file)
}

// SealedAfter lists the documents that have sealed values of their own, in the order of their names,
// behind a name: at most limit of them.
func (s *Store) SealedAfter(name string, limit int) (names []string) {
	now := s.Snapshot()
	i, found := slices.BinarySearch(now.Names(), name)
	if found {
		i++
	}
	for ; i < len(now.Names()) && len(names) < limit; i++ {
		if n := now.Node(now.Names()[i]); n.Live() && n.Sealed(false) {
			names = append(names, now.Names()[i])
		}
	}
	return names
}

// CountSealed counts the sealed values of a document by their keys.
func (s *Store) CountSealed(name string, uses secret.Uses) {
	if n := s.Snapshot().Node(name); n.Live() {
		uses.Count(n.Text())
	}
}

// Reseal writes the file of a document again with its values sealed by the newest key, and returns how
// many were not before. It is a version of its own in the history. The version that is served stays,
// no one is told, no one has to approve, and the rest of the file stays byte for byte. A file that has
// changed meanwhile stays as it is: codes.Conflict.
func (s *Store) Reseal(ctx context.Context, name string, by *access.Actor) (n int64, err error) {
	node := s.Snapshot().Node(name)
	if !node.Live() || !node.Sealed(false) {
		return 0, nil
	}
	reserved := int64(0)
	defer func() { s.cfg.Documents.Give(reserved) }()
	file, _, err := s.Look(name, func(size int64) error {
		const copies = 2 // as it is, and as it is going to be
		if !s.cfg.Documents.Take(copies * size) {
			return codes.Errorf(codes.Busy, "%s: there is no memory left to seal its values again; try again later", name)
		}
		reserved = copies * size
		return nil
	})
	if err != nil {
		return 0, err
	}
	if _, err := jsontext.CheckUTF8(file); err != nil { // edited, and not taken in yet
		return 0, codes.Errorf(codes.Conflict, "%s has changed meanwhile", name)
	}
	contents, n := s.cfg.Ring().Reseal(file)
	if n == 0 {
		return 0, nil
	}
	base := node.Hash()
	if log.DigestOf(file) != base {
		return 0, codes.Errorf(codes.Conflict, "%s has changed meanwhile", name)
	}
	req := SetRequest{Name: name, Contents: contents, Exact: true, Base: &base, Actor: by, resealed: true}
	if _, err := kv.Await(ctx, nil, func(done func(SetResult, error)) error { return s.Set(req, done) }); err != nil {
		return 0, err
	}
	return n, nil
}
