package kvjson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
)

type place struct {
	App  string `kv:"appId,else=1"`
	Name string `kv:"name"`
}

type page struct {
	Table int `kv:"table,count"`
	place
	Owner place         `kv:"key,omit"`
	TTL   time.Duration `kv:"ttl,omit"`
	Limit *int64        `kv:"limit,count"`
	More  bool          `kv:"more"`
	Names []string      `kv:"names,omit"`
	Rows  []struct {
		Place place
		Value []byte `kv:"value"`
	} `kv:"rows"`
	Rev  int64  `kv:"rev,omit"`
	Own  string // no member
	Idle string `kv:"-"`
}

func (p *page) Check() error {
	if p.Table == 13 {
		return codes.Errorf(codes.BadRequest, "no one wants table 13")
	}
	return nil
}

func readPage(d kvjson.Dialect, text string) (p page, err error) {
	members, _, err := jsontext.ScanMessage(nil, []byte(text))
	if err != nil {
		return p, err
	}
	var r kvjson.Reader
	r.Begin(d, members, new(kvjson.Scratch))
	kvjson.ReadStruct(&r, &p)
	return p, r.End()
}

// A message is its fields' tags, in each dialect and both ways.
func TestStructsAreMessages(t *testing.T) {
	for _, text := range []string{
		`{"table":0,"name":"","rows":[]}`,
		`{"table":3,"appId":"2","name":"n","key":{"name":"k"},"ttl":1500,"limit":0,"more":1,"names":[],"rows":[{"name":"a","value":"x"},{"appId":"","name":"b"}],"rev":7}`,
		`{"table":3,"name":"n","names":["a","\""],"rows":[{"name":"a","value":""},{"name":"b","bytes":"/w=="}]}`,
	} {
		p, err := readPage(kvjson.Wire, text)
		require.NoError(t, err, text)
		w := kvjson.Writer{Buf: []byte{'{'}}
		w.Struct(&p)
		want := text
		if p.Table == 3 && p.App == "2" { // what is left out is what it would be
			want = `{"table":3,"appId":"2","name":"n","key":{"name":"k"},"ttl":1500,"limit":0,"more":1,"names":[],"rows":[{"name":"a","value":"x"},{"name":"b"}],"rev":7}`
		}
		require.Equal(t, want, string(w.End()))
	}
	p, err := readPage(kvjson.HTTP, `{"table":1,"more":true,"rows":[{"name":"a"}]}`)
	require.NoError(t, err)
	p.Rev = 7
	w := kvjson.Writer{Buf: []byte{'{'}, Dialect: kvjson.HTTP}
	w.Struct(&p)
	require.Equal(t, `{"table":1,"appId":"1","name":"","more":true,"rows":[{"appId":"1","name":"a"}],"revision":7}`, string(w.End()))
	require.Equal(t, `[{"appId":"1","name":"a"}]`, string(kvjson.AppendList(nil, kvjson.HTTP, []place{{"1", "a"}})))
}

func TestStructsAreReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		`{"table":-1}`:               `"table" is not 0 or more`,
		`{"limit":"x"}`:              `"limit" is not an integer`,
		`{"key":[]}`:                 `"key" is not an object`,
		`{"key":{"name":1}}`:         `"name" is not a string`,
		`{"names":{}}`:               `"names" is not an array`,
		`{"names":["a",1]}`:          `"names" is not an array of strings`,
		`{"rows":[{},{"name":1}]}`:   `rows 1: member "name" is not a string`,
		`{"rows":[{"bytes":"==="}]}`: `is not base64`,
		`{"table":13}`:               `no one wants table 13`,
	} {
		_, err := readPage(kvjson.Wire, text)
		require.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{`{"own":1}`, `{"key":{"more":1}}`, `{"rows":[{"rev":1}]}`} {
		_, err := readPage(kvjson.HTTP, text)
		require.ErrorContains(t, err, "is not known here", text)
		_, err = readPage(kvjson.Wire, text)
		require.NoError(t, err, text)
	}
	var r kvjson.Reader
	r.Begin(kvjson.Wire, nil, new(kvjson.Scratch))
	kvjson.ReadStruct(&r, &struct {
		N int `kv:"count,must"`
	}{})
	require.ErrorAs(t, r.End(), new(*kvjson.ReplyError))
	require.Panics(t, func() {
		new(kvjson.Writer).Struct(&struct {
			N int `kv:"no such member"`
		}{})
	})
}
