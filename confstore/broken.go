package confstore

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"time"

	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/memory"
	"confcenter/meta"
)

// Broken says what is wrong with a file.
type Broken = change.Broken

// MetaName is the document that says which inherit from which.
const MetaName = meta.FileName

// Digest is that of the bytes of a file.
type Digest = log.Digest

// broken is what is wrong with a file, given the document that is served; nil if its bytes are in
// service, or if there is none. All edits that can be served are in the snapshot.
func (r *reading) broken(n *snapshot.Node) *Broken {
	if r.missing || r.fault == "" && n.Live() && n.Hash() == r.raw {
		return nil
	}
	b := &Broken{Name: r.name, Reason: r.fault, Never: !n.Known(), Hash: r.raw, Text: r.data}
	if r.fault == "" {
		b.Reason = "is not served; the problem log says why"
	}
	if asksToSeal(r.data) {
		b.Text = nil
	}
	return b
}

// overrules returns why a request must not replace a broken file. Anyone who reads the document gets
// what is served, so that no condition on that tells of what is about to be lost.
func (r *SetRequest) overrules(b *Broken) error {
	readable := b.Hash != log.Digest{}
	conditional := r.HasIfMtime || r.Base != nil
	if readable && r.Base != nil && *r.Base == b.Hash || !conditional && (readable || r.keep) {
		return nil
	}
	advice := "; nothing was written: read it and decide"
	if !readable {
		advice = ", and what it holds cannot be kept; nothing was written: move it away first"
	}
	return &codes.Error{Code: codes.Conflict, Text: b.Error() + advice, Err: b}
}

// keepAside keeps what the broken files hold that a request replaces: no version has it.
func (w *writer) keepAside(s *step) error {
	for i := range s.files {
		f := &s.files[i]
		if !f.write || f.broken == nil {
			continue
		}
		data, err := f.before.data, error(nil)
		if data == nil { // there was no memory for it
			data, _, err = atomicfile.ReadFile(w.dir.root, f.req.Name, w.cfg.MaxFileBytes)
		}
		if f.before.fault == sealFault {
			if concealed, failed := w.cfg.Ring().Seal(secret.OfDocument+f.req.Name, data); failed == nil {
				data = concealed
			}
		}
		now := w.cfg.Clock.Now()
		kept := fmt.Sprintf("%s/%s/%s-%s", asideDir, f.req.Name, now.UTC().Format("20060102T150405.000Z"), f.before.raw.String()[:8])
		if err == nil {
			err = w.dir.troubles.during(func() error { return writeAside(w.data, kept, data, now) })
		}
		if err != nil {
			return codes.Errorf(codes.Storage, "%s is broken, and what it holds cannot be kept in the data directory; nothing was written: %s", f.req.Name, atomicfile.Cause(err))
		}
		w.cfg.Log.Warn().Str("name", f.req.Name).Str("kept", kept).Msg("a broken file is replaced; what it holds is kept in the data directory")
	}
	return nil
}

// writeAside writes a file of the data directory.
func writeAside(root atomicfile.Root, name string, data []byte, modified time.Time) error {
	if err := atomicfile.MkdirAll(root, path.Dir(name), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(root, name, data, atomicfile.Attr{Perm: 0o600, ModTime: modified})
}

// Look returns the file as it is on disk at this moment, whether or not it has been taken in yet; broken
// says why it cannot be served, and is nil if it can. room is called with its size before it is read; its
// error is returned. Else it fails with codes.BadName, codes.NotFound, or, of a broken file,
// codes.TooLarge, codes.Storage or, if there is a value in it that no one must see because it is to be
// sealed, codes.Forbidden. It may be called from any goroutine.
func (s *Store) Look(name string, room func(size int64) error) (file []byte, broken *Broken, err error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	root, err := s.cfg.FS.OpenRoot(s.directory.path)
	if err != nil {
		return nil, nil, &codes.Error{Code: codes.Storage, Text: "the configuration directory cannot be opened", Err: err}
	}
	defer root.Close()
	info, err := root.Stat(name)
	large := err == nil && info.Size() > s.cfg.MaxFileBytes
	if err == nil && !large {
		if err := room(info.Size()); err != nil {
			return nil, nil, err
		}
	}
	d := directory{cfg: &s.cfg, root: root}
	d.room.pool, d.room.now = memory.NewPool(math.MaxInt64), s.directory.room.now // the caller has room
	r, n := d.read(name, true), s.Snapshot().Node(name)
	if r.missing {
		return nil, nil, codes.Errorf(codes.NotFound, "there is no file %q", name)
	}
	if r.fault == "" && (!n.Live() || n.Hash() != r.raw) { // it may be about to be taken in
		if r.fault = s.publisher.fault(name); n != nil {
			r.fault = cmp.Or(r.fault, n.Broken())
		}
	}
	if r.fault == "" {
		return r.data, nil, nil
	}
	broken = r.broken(n)
	switch {
	case broken.Text != nil:
	case r.raw != log.Digest{}:
		err = codes.Errorf(codes.Forbidden, "%s %s", name, sealFault)
	case large:
		err = codes.Errorf(codes.TooLarge, "%s %s", name, r.fault)
	default:
		err = codes.Errorf(codes.Storage, "%s %s", name, r.fault)
	}
	return broken.Text, broken, err
}
