package field

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
)

// id draws ids of the characters that have a meaning somewhere.
func id() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9.-]{1,8}`),
		rapid.StringOfN(rapid.RuneFrom([]rune(":_%&z/'{}\"`\\ aA1\x01\x7f\u0085é☃𝄞")), 1, 5, -1),
	)
}

func owner() *rapid.Generator[Owner] {
	return rapid.Custom(func(t *rapid.T) Owner {
		return Owner{App: id().Draw(t, "app"), Region: id().Draw(t, "region"), Logic: id().Draw(t, "logic"), ID: id().Draw(t, "id")}
	})
}

func TestNamesOfTheDocument(t *testing.T) {
	for _, test := range []struct {
		o          Owner
		name       string
		table, key string
	}{
		{Owner{"1", "1", "user", "100"}, "data", "1_1", "user:100:data"},
		{Owner{"a:b", "1", "c:d", "e"}, "f", "_az3ab_1", ":c%3Ad:e:f"},
		{Owner{"a_b", "c", "x", "y"}, "a:b", "_az5fb_c", "x:y:a:b"},
		{Owner{"a", "b_c", "x", "y"}, ":delFlag", "_a_bz5fc", "x:y::%3AdelFlag"},
		{Owner{"zz", "Z.-", "50%", "y"}, "5%", "zz_Z.-", "50%:y:5%"},
		{Owner{"_", "z_", "a\nb", "5%"}, "\x01%", "_z5f_z7az5f", ":a%0Ab:5%25::%01%25"},
		{Owner{"é", "1", "\u0085", "y"}, "k", "_zc3za9_1", ":%C2%85:y:k"},
	} {
		f := Ref{test.o, test.name}
		require.Equal(t, test.table, test.o.Table())
		require.Equal(t, test.key, f.Key())
		parsed, ok := ParseField(test.table, test.key)
		require.True(t, ok, test.key)
		require.Equal(t, f, parsed)
	}
}

// The names of two different fields differ, as each name is read back as its field. They fit
// the state store, and the fields of an owner are one prefix.
func TestNamesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Ref{owner().Draw(t, "owner"), id().Draw(t, "name")}
		require.NoError(t, f.Owner.Check())
		parsed, ok := ParseField(f.Owner.Table(), f.Key())
		require.True(t, ok)
		require.Equal(t, f, parsed)
		o, ok := ParseOwner(f.Owner.Table(), f.Owner.Key())
		require.True(t, ok)
		require.Equal(t, f.Owner, o)
		require.NoError(t, kv.CheckPair(f.Owner.Namespace(), f.Key()))
		require.Equal(t, len(f.Owner.Key()), OwnerLen(f.Key()))

		other := Ref{owner().Draw(t, "other"), id().Draw(t, "its name")}
		mine := Filter(f.Owner).Match(other.Owner.Namespace(), other.Key())
		require.Equal(t, other.Owner == f.Owner, mine)
	})
}

func FuzzParseField(f *testing.F) {
	f.Add("1_1", "user:100:data")
	f.Add("_az3ab_1", ":c%3Ad:e::%3Af")
	f.Fuzz(func(t *testing.T, table, key string) {
		field, ok := ParseField(table, key)
		if !ok {
			return
		}
		require.Equal(t, table, field.Owner.Table())
		require.Equal(t, key, field.Key())
	})
}

func TestNamesThatDoNotFitAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxColumn+1)
	good := Owner{"1", "1", "user", "100"}
	for what, test := range map[string]struct {
		o    Owner
		name string
		code codes.Code
	}{
		"appId is empty":                      {Owner{"", "1", "user", "1"}, "k", codes.BadKey},
		"regionId":                            {Owner{"1", "a\x00", "user", "1"}, "k", codes.BadKey},
		"logic_type":                          {Owner{"1", "1", "\xff", "1"}, "k", codes.BadKey},
		"owner_id":                            {Owner{"1", "1", "user", long}, "k", codes.NameTooLong},
		"the limit is 255":                    {Owner{"1", "1", long, "1"}, "k", codes.NameTooLong},
		"the table's name":                    {Owner{long[:MaxTable-1], "1", "user", "1"}, "k", codes.NameTooLong},
		"query_all_key":                       {Owner{"1", "1", long[:128], long[:127]}, "k", codes.NameTooLong},
		"primary_key":                         {Owner{"1", "1", long[:100], long[:100]}, long[:54], codes.NameTooLong},
		"key \"xxx":                           {good, long[:MaxName+1], codes.NameTooLong},
		"key is empty":                        {good, "", codes.BadKey},
		"primary_key \"user:100:::::::::::::": {Owner{"1", "1", "user", "100"}, strings.Repeat(":", 100), codes.NameTooLong},
	} {
		err := test.o.Check()
		if err == nil {
			err = test.o.CheckField([]byte(test.o.Key()), test.name)
		}
		require.ErrorIs(t, err, test.code, what)
		require.ErrorContains(t, err, what)
	}
	require.NoError(t, Owner{"1", "1", long[:100], long[:100]}.Check())
	require.NoError(t, good.CheckField([]byte("user:100"), long[:MaxName]))
}

// What Java says of the same texts.
func TestDirtyTablesAreHomos(t *testing.T) {
	o := Owner{"1", "1", "user", "100"}
	require.Equal(t, 0, o.Home(1))
	h := int32(0)
	for _, c := range "slug-data:{1:1:user:100}" {
		h = 31*h + c
	}
	require.Equal(t, int(max(int64(h), -int64(h))%7), o.Home(7))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxTables).Draw(t, "tables")
		at := owner().Draw(t, "owner").Home(n)
		require.True(t, at >= 0 && at < n)
	})
}

func TestSettingsOfTheDocument(t *testing.T) {
	s, err := ParseSettings([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, Defaults(), s)
	s, err = ParseSettings([]byte(`{"homo.dirty.tableNum":4,"homo.dirty.table.prefix":"p","homo.dirty.lock.expireTime":7,
		"homo.dirty.snapshot.suffix":"s","homo.dirty.lock.error.suffix":"e","homo.dirty.landing.batchNum":"10",
		"homo.dirty.landing.delayTime":250,"spring.name":[1],"homo.redis.expire":"86400","homo.dirty.removed.expireTime":604800,"homo.dirty.tableNum":5}`))
	require.NoError(t, err)
	require.Equal(t, Settings{Tables: 4, Prefix: "p", LockTime: 7e9, SavingSuffix: "s", ErrorSuffix: "e", Batch: 10, Delay: 25e7, Idle: 24 * time.Hour, Purge: 7 * 24 * time.Hour}, s)
	require.Equal(t, "p:3", s.List(3))
	for text, want := range map[string]string{
		`[]`:                                   "must be a JSON object",
		`{`:                                    "not valid JSON",
		`{"homo.dirty.tableNum":0}`:            `homo.dirty.tableNum: "0" is not a whole number from 1 to 1024`,
		`{"homo.dirty.tableNum":1.5}`:          "homo.dirty.tableNum",
		`{"homo.dirty.table.prefix":""}`:       "homo.dirty.table.prefix",
		`{"homo.dirty.lock.expireTime":null}`:  "homo.dirty.lock.expireTime",
		`{"homo.dirty.landing.delayTime":0}`:   "homo.dirty.landing.delayTime",
		`{"homo.dirty.landing.batchNum":4001}`: "from 1 to 4000",
		`{"homo.dirty.tablenum":4}`:            `there is no setting "homo.dirty.tablenum": is it "homo.dirty.tableNum"?`,
		`{"homo_dirty_table_num":4}`:           `is it "homo.dirty.tableNum"?`,
		`{"dirty.tableNum":4}`:                 `is it "homo.dirty.tableNum"?`,
		`{"Homo.Redis.Expire":60}`:             `is it "homo.redis.expire"?`,
		`{"homo.dirty.landing.batch":4}`:       `there is no setting "homo.dirty.landing.batch"; there are homo.dirty.landing.batchNum, `,
		`{"homo":{"dirty":{"tableNum":4}}}`:    `"homo" is an object: the settings of landing are flat, as "homo.dirty.tableNum": 4`,
		`{"homo.dirty":{"tableNum":4}}`:        `"homo.dirty" is an object`,
		`{"dirty":{"tableNum":4}}`:             `"dirty" is an object`,
		`{"homo.redis.expire":59}`:             `homo.redis.expire: "59" is not a whole number from 60 to 31536000, nor 0 for never`,
		`{"homo.dirty.removed.expireTime":60}`: "from 3600 to",
	} {
		s, err := ParseSettings([]byte(text))
		require.ErrorContains(t, err, want)
		require.Equal(t, Defaults(), s)
	}
}
