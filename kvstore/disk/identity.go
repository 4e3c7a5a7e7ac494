package disk

import (
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

const identityBytes = 16

// identify reads the identity of the store. It makes one for a store that has none: one that is
// new, or was last used by a version that knew none.
func (d *database) identify() error {
	row, closer, err := d.db.Get(identityKey)
	if err == nil {
		d.identity = string(row)
		return closer.Close()
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return damaged("identity", err)
	}
	var random [identityBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return refused(err)
	}
	d.identity = hex.EncodeToString(random[:])
	if d.cfg.ReadOnly {
		return nil
	}
	set := d.newTables()
	defer set.discard()
	set.small(identityKey, []byte(d.identity))
	return refused(set.add())
}

// Identity is random text that is made with the store and kept. A copy of the directory has the
// same.
func (d *Disk) Identity() string { return d.identity }
