package history

import (
	"cmp"
	"context"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
)

// PruneAsk asks to remove old versions.
type PruneAsk struct {
	Keep   int64 `json:"keep,omitempty" doc:"how many versions of each document stay whatever their age; 0: 1000"`
	Days   int64 `json:"days,omitempty" doc:"for how many days versions stay however many they are, and what was current then; 0: 365"`
	DryRun bool  `json:"dry_run,omitempty" doc:"remove nothing: say what would go"`
}

// PruneAnswer is what is gone.
type PruneAnswer struct {
	DryRun    bool         `json:"dry_run,omitempty" doc:"nothing is gone: it would be"`
	Versions  int64        `json:"versions" doc:"how many are gone; those who ask for them are told that they are compacted"`
	Bytes     int64        `json:"bytes" doc:"how long their files were together"`
	Chunks    int64        `json:"chunks" doc:"parts of files that are gone, because no version has them any more"`
	Changes   int64        `json:"changes" doc:"changes that are gone, because no version of them is left"`
	Documents []PrunedFrom `json:"documents" doc:"of which documents, at most 1000 of them"`
	More      bool         `json:"more,omitempty" doc:"there is more to do: ask again"`
}

// PrunedFrom is a document that lost versions.
type PrunedFrom struct {
	Name     string `json:"name" doc:"of the document"`
	Versions int64  `json:"versions" doc:"how many are gone"`
	First    int64  `json:"first" doc:"the number of the oldest that is left"`
}

// What stays unless less is asked for.
const (
	keptVersions = 1000
	keptDays     = 365
)

// Prune removes versions that are both many and old: of each document all but the newest, and of
// those only such that were replaced long ago. Nothing else ever removes one.
func (h *History) Prune(ctx context.Context, by *access.Actor, q *PruneAsk) (*PruneAnswer, error) {
	switch {
	case q.Keep < 0:
		return nil, codes.Errorf(codes.BadRequest, "keep is %d: at least the newest version stays", q.Keep)
	case q.Days < 0 || q.Days > 1e6:
		return nil, codes.Errorf(codes.BadRequest, "days is %d: it is from 1 to 1000000", q.Days)
	}
	if !h.pruning.TryLock() {
		return nil, &codes.Error{Code: codes.Busy, After: takenFor, Text: "versions are being removed already; try again later"}
	}
	defer h.pruning.Unlock()
	now := h.cfg.Clock.Now()
	r := log.Retention{Keep: cmp.Or(q.Keep, keptVersions), DryRun: q.DryRun, Before: now.AddDate(0, 0, -int(cmp.Or(q.Days, keptDays)))}
	if by != nil {
		r.Actor = by
		r.By = log.By{Author: by.By(), Origin: by.Origin, Peer: by.Address, Comment: by.Comment, Time: now.UnixMilli()}
	}
	done, err := h.log.Remove(ctx, r)
	if err != nil {
		return nil, err
	}
	answer := &PruneAnswer{DryRun: q.DryRun, Versions: int64(done.Versions), Bytes: done.Bytes, Chunks: int64(done.Chunks), Changes: int64(done.Changes), More: done.More}
	for _, d := range done.Documents[:min(len(done.Documents), mostPaths)] {
		answer.Documents = append(answer.Documents, PrunedFrom{d.Name, int64(d.Versions), d.First})
	}
	return answer, nil
}
