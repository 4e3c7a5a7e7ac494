package meta_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// Whatever stands in the file, Parse and the look-ups answer, and what they
// answer keeps their promises.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ``, `{"conf_inherit":{"app1-dev.json":"common.json app1.json","a":"a b,c\td"}}`,
		`{"conf_inherit":{"a":"b","b":"c","c":"a"},"inherit_options":{"*":{"chain":true,"merge":"deep"},"a":{"merge":"shallow"}}}`,
		`{"app_profile":{"tag1":{"_rack":40,"app1":"app1-dev.json"},"default":{"_idc":1.0,"app1":null}}}`,
		`{"conf_inherit":{"\u0000":"x","":"y"},"conf_inherit":7,"inherit_options":{"x":{}},"app_profile":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, problems, err := meta.Parse(text)
		kind, syntax := jsontext.Check(text)
		require.Equal(t, syntax == nil && kind == jsontext.Object, err == nil)
		if err != nil {
			require.Nil(t, m)
			return
		}
		for _, problem := range append(problems, m.Check(never)...) {
			require.NotEmpty(t, problem.Text)
		}
		require.IsNonDecreasing(t, append([]string{"", ""}, m.Names()...))
		for _, name := range m.Names() {
			require.Equal(t, meta.Complete(name), name)
			bases, ok := m.Bases(name)
			require.True(t, ok)
			require.LessOrEqual(t, len(bases), meta.MaxBases)
			requireDistinct(t, name, bases)
			for _, base := range bases {
				require.Equal(t, meta.Complete(base), base)
				require.True(t, base != "" && utf8.ValidString(base))
			}
			m.Deep(name)
		}
		m.Profile("tag1", "192.168.228.10", "app1")
	})
}
