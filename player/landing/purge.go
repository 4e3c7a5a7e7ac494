package landing

import (
	"context"
	"slices"
	"strings"

	"confcenter/player"
	"confcenter/player/field"
)

// Purge implements storage.Backing. The index on query_all_key says where the rows end that are
// looked at, and which of them are removed, so the live ones are not read.
func (d *Database) Purge(ctx context.Context, p player.Purge) (done player.Purged, err error) {
	name := field.Owner{App: p.App, Region: p.Region}.Table()
	err = d.query(ctx, name, func(ctx context.Context, table string) (found bool, err error) {
		if err := d.same(ctx); err != nil {
			return false, err
		}
		by := d.dialect.Ordered("query_all_key")
		ends, err := column(ctx, d.db, d.dialect.Bind("SELECT "+by+" FROM "+table+" WHERE "+by+" > ? ORDER BY "+by+" LIMIT 1 OFFSET ?"), p.After, p.Limit-1)
		if err != nil {
			return false, err
		}
		where, args := by+" > ?", []any{p.After}
		if len(ends) > 0 {
			done.Next, done.More = ends[0], true
			where, args = where+" AND "+by+" <= ?", append(args, ends[0])
		}
		old, limits := " AND is_del = 1 AND del_time > 0 AND del_time <= ? AND COALESCE(up_version, 0) < ?", []any{p.Removed, p.Below}
		keys, err := column(ctx, d.db, d.dialect.Bind("SELECT primary_key FROM "+table+" WHERE "+where+old+" LIMIT ?"), append(append(args, limits...), p.Limit)...)
		if err != nil {
			return false, err
		}
		if len(keys) == p.Limit {
			done.Next, done.More = p.After, true // there may be more of an owner with many fields
		}
		slices.Sort(keys) // the order in which they are landed
		for some := range slices.Chunk(keys, perQuery) {
			args := make([]any, len(some))
			for i, key := range some {
				args[i] = key
			}
			n, err := contents{d, name}.purge(ctx, d.dialect.Bind("DELETE FROM "+table+" WHERE primary_key IN (?"+strings.Repeat(",?", len(some)-1)+")"+old), append(args, limits...))
			done.Rows += int(n)
			if err != nil {
				return false, err
			}
		}
		return len(ends)+len(keys) > 0, nil
	})
	return done, err
}
