package kv

import "context"

// historySlice is how many versions are asked for at once: a store counts versions
// and not bytes, and a version may have MaxValue of them.
const historySlice = 16

// PastVersions lists versions of a key as Store.History does, but ends also behind
// the one with which they have MaxPage bytes, so that an answer stays bounded. It may
// wait for the disk.
func PastVersions(ctx context.Context, s Store, ns, key string, before Revision, limit int) (all Versions, err error) {
	if limit <= 0 || limit > MaxHistory {
		limit = MaxHistory
	}
	size := 0
	for {
		part, err := s.History(ctx, ns, key, before, min(historySlice, limit-len(all.Entries)))
		if err != nil {
			return Versions{}, err
		}
		all.More, all.Floor = part.More, part.Floor
		for i, e := range part.Entries {
			all.Entries = append(all.Entries, e)
			if size += e.Size(); size >= MaxPage {
				all.More = all.More || i < len(part.Entries)-1
				return all, nil
			}
		}
		if !part.More || len(part.Entries) == 0 || len(all.Entries) >= limit {
			return all, nil
		}
		before = part.Entries[len(part.Entries)-1].Mod
	}
}
