package player

import (
	"context"
	"encoding/binary"
	"slices"
	"sort"

	"confcenter/kv"
	"confcenter/player/field"
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
	l.bucket = append(appendBucketKey(l.bucket[:0], bucketOf(hash)), field.Landing...)
	n := len(filterPrefix) + bucketBits/4
	e, _ := store.Get(l.bucket[n:], l.bucket[:n])
	return e != nil && inBucket(e.Value.Data, uint32(hash))
}

func inBucket(bucket []byte, print uint32) bool {
	if len(bucket) == 0 {
		return false
	}
	prints := bucket[1:]
	if bucket[0] == listBucket {
		n := len(prints) / printBytes
		i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint32(prints[i*printBytes:]) >= print })
		return i < n && binary.BigEndian.Uint32(prints[i*printBytes:]) == print
	}
	for i := range bloomHashes {
		if word, bit := bloomPlace(print, i); prints[word]&bit == 0 {
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

// withPrints is the bucket with more owners, whose list is used up.
func withPrints(bucket []byte, prints []uint32) []byte {
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

// prints are the fingerprints of owners that the filter is to have, by bucket.
type prints [1 << bucketBits][]uint32

func (p *prints) add(hash uint64) {
	list := &p[bucketOf(hash)]
	*list = append(*list, uint32(hash))
}

// addToFilter adds owners, a transaction at a time. Their lists are empty afterwards.
func (c *cold) addToFilter(ctx context.Context, owners *prints) error {
	c.filling.Lock()
	defer c.filling.Unlock()
	var ops []kv.Op
	for bucket := range owners {
		list := owners[bucket]
		owners[bucket] = list[:0]
		key := appendBucketKey(nil, bucket)
		var old []byte
		if e, _ := c.s.store.Get([]byte(field.Landing), key); e != nil {
			old = e.Value.Data
		}
		if list = slices.DeleteFunc(list, func(print uint32) bool { return inBucket(old, print) }); len(list) > 0 {
			ops = append(ops, kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: string(key), Value: kv.BytesValue(withPrints(old, list))})
		}
		const atOnce = 64 // buckets
		if len(ops) == atOnce || len(ops) > 0 && bucket == len(owners)-1 {
			if _, err := c.s.commit(ctx, &kv.Txn{Then: ops, Must: true}); err != nil {
				return err
			}
			ops = nil
		}
	}
	return nil
}
