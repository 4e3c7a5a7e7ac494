package doclog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

// A build before wrote large changes in parts, and may have ended when they counted and were not yet
// in place. These are the entries of one that changed a.json and left the list of b.json.
func TestAChangeThatABuildBeforeLeftInPartsIsPlacedOnce(t *testing.T) {
	b := newBed(t)
	defer b.close()
	first := b.commit(set("a.json", "old"), set("b.json", "same"))
	const digest = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437" // of "new"
	op := func(ns, key, text string) kv.Op {
		value := kv.JSONValue([]byte(text))
		if strings.HasSuffix(ns, "/versions") {
			value = kv.BytesValue([]byte(text))
		}
		return kv.Op{Kind: kv.OpPut, NS: kv.ConfigNamespace + ns, Key: key, Value: value}
	}
	document := func(name string) string {
		e, _ := b.store.Get([]byte(kv.ConfigNamespace), []byte("doc/"+name))
		return string(e.Value.Data)
	}
	newA := fmt.Sprintf(`"n":2,"seq":3,"served":11,"given":11,"size":3,"hash":"%s"`, digest)
	sameB := strings.TrimSuffix(strings.TrimPrefix(document("b.json"), "{"), "}") + fmt.Sprintf(`,"rev":%d,"floor":12`, first[1])
	for _, ops := range [][]kv.Op{
		{op("/versions", "a.json//0000000002", `{"seq":3,"staged":true,"served":11,"given":11,"size":3,"hash":"`+digest+`"}`+"\nnew")},
		{op("/stage", "000000", `[{"name":"a.json",`+newA+`},{"name":"b.json",`+sameB+`}]`)},
		{
			op("", "log", `{"epoch":"`+b.log.Epoch()+`","seq":3,"parts":1}`),
			op("/changes", fmt.Sprintf("%016x", ^uint64(3)), `{"author":"ann","time":7,"count":1,"documents":[{"name":"a.json","n":2,"kind":"changed"}]}`),
		},
	} {
		_, err := kv.Commit(t.Context(), b.store, &kv.Txn{System: true, Then: ops})
		require.NoError(t, err)
	}
	made := b.store.Revision()
	b.open()
	require.Equal(t, "new", b.text("a.json"))
	require.Equal(t, "same", b.text("b.json"))
	d, err := b.log.Document("a.json")
	require.NoError(t, err)
	require.Equal(t, made, d.Revision, "the change has its own, not that of placing it")
	d, err = b.log.Document("b.json")
	require.NoError(t, err)
	require.EqualValues(t, 12, d.Floor)
	require.Equal(t, first[1], d.Revision)
	require.Empty(t, check(b.entries(), same))
	placed := b.store.Revision()
	b.open()
	require.Equal(t, placed, b.store.Revision(), "it is done once")
	b.commit(set("a.json", "next"))
	require.Equal(t, "next", b.text("a.json"))
}
