package storage

import (
	"context"
	"encoding/binary"
	"slices"
	"sort"

	"confcenter/kv"
)

// The filter tells which owners may have fields that are only in the database. It is made of
// entries in Landing, one for each bucket: at first a sorted list of fingerprints, and a Bloom
// filter of the same size from when that would be longer. So it never takes more than 32 MiB,
// and errs only by asking the database in vain.
const (
	filterPrefix = "filter/"
	bucketBits   = 12
	bucketBytes  = 8 << 10
	printBytes   = 4 // of a fingerprint
	bloomHashes  = 6

	listBucket  = 'L' // the first byte of a bucket
	bloomBucket = 'B'
)

func bucketOf(hash uint64) int { return int(hash >> (64 - bucketBits)) }

func appendBucketKey(dst []byte, bucket int) []byte {
	const digits = "0123456789abcdef"
	return append(append(dst, filterPrefix...), digits[bucket>>8], digits[bucket>>4&0xF], digits[bucket&0xF])
}

func inFilter(store kv.Store, hash uint64) bool {
	l := lookups.Get().(*lookup)
	defer lookups.Put(l)
	l.bucket = append(appendBucketKey(l.bucket[:0], bucketOf(hash)), Landing...)
	n := len(filterPrefix) + bucketBits/4
	e, _ := store.Get(l.bucket[n:], l.bucket[:n])
	return e != nil && inBucket(e.Value.Data, hash)
}

func inBucket(bucket []byte, hash uint64) bool {
	if len(bucket) == 0 {
		return false
	}
	prints := bucket[1:]
	if bucket[0] == listBucket {
		n := len(prints) / printBytes
		i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint32(prints[i*printBytes:]) >= uint32(hash) })
		return i < n && binary.BigEndian.Uint32(prints[i*printBytes:]) == uint32(hash)
	}
	for i := range bloomHashes {
		if word, bit := bloomPlace(uint32(hash), i); prints[word]&bit == 0 {
			return false
		}
	}
	return true
}

// bloomPlace is the bit of a fingerprint for one of the hashes.
func bloomPlace(print uint32, i int) (word int, bit byte) {
	h := uint64(print) * odd
	at := (uint32(h>>32) + uint32(i)*(uint32(h)|1)) % (bucketBytes * 8)
	return int(at / 8), 1 << (at % 8)
}

// withPrints is the bucket with more owners.
func withPrints(bucket []byte, hashes []uint64) []byte {
	var prints []uint32
	for _, h := range hashes {
		prints = append(prints, uint32(h))
	}
	if len(bucket) > 0 && bucket[0] == bloomBucket {
		return withBits(slices.Clone(bucket), prints)
	}
	for i := 1; i < len(bucket); i += printBytes {
		prints = append(prints, binary.BigEndian.Uint32(bucket[i:]))
	}
	slices.Sort(prints)
	prints = slices.Compact(prints)
	if len(prints)*printBytes > bucketBytes {
		bloom := make([]byte, 1+bucketBytes)
		bloom[0] = bloomBucket
		return withBits(bloom, prints)
	}
	list := make([]byte, 1, 1+len(prints)*printBytes)
	list[0] = listBucket
	for _, p := range prints {
		list = binary.BigEndian.AppendUint32(list, p)
	}
	return list
}

func withBits(bloom []byte, prints []uint32) []byte {
	for _, p := range prints {
		for i := range bloomHashes {
			word, bit := bloomPlace(p, i)
			bloom[1+word] |= bit
		}
	}
	return bloom
}

// addToFilter adds owners, a transaction at a time.
func (c *cold) addToFilter(ctx context.Context, hashes []uint64) error {
	c.filling.Lock()
	defer c.filling.Unlock()
	hashes = slices.DeleteFunc(slices.Clone(hashes), func(h uint64) bool { return inFilter(c.s.store, h) })
	slices.Sort(hashes)
	var ops []kv.Op
	for len(hashes) > 0 {
		n := 1
		for n < len(hashes) && bucketOf(hashes[n]) == bucketOf(hashes[0]) {
			n++
		}
		key := appendBucketKey(nil, bucketOf(hashes[0]))
		var old []byte
		if e, _ := c.s.store.Get([]byte(Landing), key); e != nil {
			old = e.Value.Data
		}
		ops = append(ops, kv.Op{Kind: kv.OpPut, NS: Landing, Key: string(key), Value: kv.BytesValue(withPrints(old, hashes[:n]))})
		hashes = hashes[n:]
		const atOnce = 64 // buckets
		if len(ops) == atOnce || len(hashes) == 0 {
			if _, err := c.s.commit(ctx, &kv.Txn{Then: ops}); err != nil {
				return err
			}
			ops = nil
		}
	}
	return nil
}
