package kv

import "context"

// historySlice is how many versions are read at a time: a store counts versions,
// not bytes, and a version may have MaxValue bytes.
const historySlice = 16

// PastVersions lists versions of a key like Store.History, but also stops after the
// one that reaches MaxPage bytes, so that a reply stays bounded. It may wait for
// the disk.
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
