package history

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/meta"
)

// A moment is how people name a revision:
//
//	4711                  the revision
//	~2                    two versions of the document, or changes of all, before the newest
//	2026-11-23            a time, UTC unless it says otherwise: what was there then
//	2026-11-23T05:00
//	2026-11-23T05:00:00Z
//
// Empty is the newest.

var layouts = [...]string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02 15:04:05Z07:00"}

// ParseTime reads a time as people write it: without a zone it is UTC, for every command and wherever the
// command runs. ok is false if it is none.
func ParseTime(text string) (at time.Time, ok bool) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true
		}
	}
	return at, false
}

// parseMoment tells how a moment is meant.
func parseMoment(text string) (rev, back int64, at time.Time, ok bool) {
	if number, found := strings.CutPrefix(text, "~"); found {
		n, err := strconv.ParseUint(number, 10, 31)
		return 0, int64(n), at, err == nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, -1, at, true
	}
	at, ok = ParseTime(text)
	return 0, -1, at, ok
}

// IsMoment reports whether a text says a revision: by its number, ~N or a time.
func IsMoment(text string) bool {
	_, _, _, ok := parseMoment(text)
	return ok
}

// split takes a moment off the end of NAME@MOMENT.
func split(name, moment string) (string, string) {
	if at := strings.LastIndexByte(name, '@'); at > 0 && moment == "" {
		if IsMoment(name[at+1:]) {
			return name[:at], name[at+1:]
		}
	}
	return name, moment
}

// document finds a document by its name, which may omit ".json".
func (h *History) document(name string) (log.Document, error) {
	d, err := h.log.Document(meta.Complete(name))
	if err == nil && d.N == 0 {
		err = h.cfg.neverBeen(d.Name)
	}
	return d, err
}

func noMoment(text string) string {
	return fmt.Sprintf("%.80q is no revision: give a number, '~N' for N versions before the newest, or a time like 2026-11-23T05:00:00Z", text)
}

// revision is what moment means for a document, or for all if d is nil.
func (h *History) revision(ctx context.Context, d *log.Document, moment string) (kv.Revision, error) {
	newest := h.log.Revision()
	if moment == "" {
		return newest, nil
	}
	rev, back, at, ok := parseMoment(moment)
	switch {
	case !ok:
		return 0, codes.Errorf(codes.BadRequest, "%s", noMoment(moment))
	case !at.IsZero():
		return h.revisionAt(ctx, at)
	case back >= 0 && d != nil:
		return h.versionsBack(ctx, d, back)
	case back >= 0:
		return h.changesBack(ctx, back)
	case rev < 1:
		return 0, codes.Errorf(codes.BadRequest, "revision %d: revisions begin at 1; '~N' is N versions before the newest", rev)
	case kv.Revision(rev) > newest:
		return 0, codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", rev, newest)
	}
	return kv.Revision(rev), nil
}

func (h *History) versionsBack(ctx context.Context, d *log.Document, back int64) (kv.Revision, error) {
	if back == 0 {
		return h.log.Revision(), nil
	}
	if back >= d.N {
		return 0, codes.Errorf(codes.NotFound, "%s has %d versions, so that ~%d is the first", d.Name, d.N, d.N-1)
	}
	v, err := h.log.Find(ctx, d, d.N-back)
	return v.Revision, err
}

func (h *History) changesBack(ctx context.Context, back int64) (kv.Revision, error) {
	if back >= mostChanges {
		return 0, codes.Errorf(codes.BadRequest, "~%d: at most %d changes are counted back; name a revision or a time", back, mostChanges-1)
	}
	list, err := h.log.Changes(ctx, 0, int(back)+1)
	if err == nil && int64(len(list)) <= back {
		err = codes.Errorf(codes.NotFound, "there are %d changes that '~N' can count", len(list))
	}
	if err != nil {
		return 0, err
	}
	return list[back].Revision, nil
}

// revisionAt is that of the last change up to a time; 0 if there was none yet.
func (h *History) revisionAt(ctx context.Context, at time.Time) (kv.Revision, error) {
	if now := h.cfg.Clock.Now(); at.After(now) {
		return 0, codes.Errorf(codes.FutureRevision, "%s is in the future: here it is %s", at.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	m, err := h.log.LastChange(ctx, func(m *log.Made) bool { return m.Time <= at.UnixMilli() })
	if err != nil || m.Revision > 0 {
		return m.Revision, err
	}
	gone, err := h.log.ChangesGone()
	if gone > 0 {
		err = codes.Errorf(codes.Compacted, "what was there at %s is no longer kept", at.Format(time.RFC3339))
	}
	return 0, err
}
