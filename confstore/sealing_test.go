package confstore

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/change"
)

const plain = "hunter2-marker"

func testRing(id string) *secret.Ring {
	k := secret.Key{ID: id, Made: 1}
	copy(k.Key[:], id)
	return secret.NewRing([]secret.Key{k})
}

// sealingKit is a kit with a key, and what it logs.
func sealingKit(t *testing.T, files map[string]string) (*kit, *bytes.Buffer) {
	k := newKit(t, files)
	require.NoError(t, k.Close())
	log := &bytes.Buffer{}
	ring := testRing("k")
	k.cfg.Ring, k.cfg.Log = func() *secret.Ring { return ring }, zerolog.New(zerolog.SyncWriter(log))
	k.open()
	return k, log
}

// searched fails if the plain text is in a file below a directory.
func searched(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(text), plain, path)
		}
		return err
	}))
}

func TestAValueIsSealedBeforeAnythingKeepsIt(t *testing.T) {
	k, log := sealingKit(t, map[string]string{"a.json": `{}`, "heir.json": `{"own":1}`, "_meta.json": `{"conf_inherit":{"heir.json":"a.json"}}`})
	require.False(t, k.Snapshot().Node("a.json").Sealed(true))
	k.mustSet("a.json", `{"host":"db","password":{"$seal":"`+plain+`"}}`)
	require.Contains(t, k.text("a.json"), `{"host":"db","password":"$secret:v1:k:`)
	require.Contains(t, k.text("a.json"), `:config:a.json"}`)

	heir := k.Snapshot().Node("heir.json")
	require.True(t, heir.Sealed(true))
	require.False(t, heir.Sealed(false))
	everybody := func(string) bool { return true }
	require.JSONEq(t, `{"host":"db","password":"`+plain+`","own":1}`, string(k.cfg.Ring().AppendRevealed(nil, []byte(k.merged("heir.json")), everybody)))

	exact := "{ \"token\" :\t{\"$seal\": [\"" + plain + "\"] } }\r\n"
	_, err := k.set(SetRequest{Name: "b.json", Contents: []byte(exact), Exact: true})
	require.NoError(t, err)
	file, err := k.ReadFile("b.json", anySize)
	require.NoError(t, err)
	require.Regexp(t, `^\{ "token" :\t"\$secret:v1:[^"]*:config:b\.json" \}\r\n$`, string(file), "the rest of the file is as it was written")

	_, err = changeNow(t, k.Store, change.Request{Documents: []change.Document{write("c.json", exact), write("d.json", `{"$seal":"`+plain+`"}`)}})
	require.NoError(t, err)
	require.Contains(t, k.text("d.json"), ":config:d.json")

	for _, name := range []string{"a.json", "b.json", "c.json", "d.json"} {
		d, err := k.writer.log.Document(name)
		require.NoError(t, err)
		v, err := k.writer.log.Version(t.Context(), name, d.N)
		require.NoError(t, err)
		require.Contains(t, string(v.File), "$secret:v1:")
		require.NotContains(t, string(v.File), plain)
	}
	searched(t, k.cfg.Dir)
	searched(t, k.cfg.DataDir)
	was := k.text("a.json")
	k.reopen()
	require.Equal(t, was, k.text("a.json"))
	require.True(t, k.Snapshot().Node("heir.json").Sealed(true), "it is known after a start, too")
	require.NoError(t, k.Close())
	require.NotContains(t, log.String(), plain)
}

// What was read without being revealed can be written back.
func TestMarksAreWrittenBackAsTheyAre(t *testing.T) {
	k, _ := sealingKit(t, nil)
	k.mustSet("a.json", `{"password":{"$seal":"x"}}`)
	was := k.text("a.json")
	k.next()
	k.mustSet("a.json", was)
	k.none()
	require.Equal(t, was, k.text("a.json"))
	k.mustSet("copy.json", was)
	require.Equal(t, was, k.text("copy.json"))
}

func TestWhatCannotBeSealedIsNotWritten(t *testing.T) {
	k, _ := sealingKit(t, nil)
	for _, row := range []struct {
		name, text string
		code       codes.Code
	}{
		{"_meta.json", `{"conf_inherit":{"$seal":{"a.json":"` + plain + `"}}}`, codes.BadRequest},
		{"a.json", `{"a":{"$seal":"` + plain + `","b":1}}`, codes.BadRequest},
		{"a.json", `{"a":{"$seal":"` + plain + `"`, codes.BadJSON},
	} {
		_, err := k.set(SetRequest{Name: row.name, Contents: []byte(row.text)})
		require.Equal(t, row.code, codes.Of(err), row.text)
		require.NotContains(t, err.Error(), plain)
	}
	bare := newKit(t, nil)
	_, err := bare.set(SetRequest{Name: "a.json", Contents: []byte(`{"a":{"$seal":"` + plain + `"}}`)})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
	require.ErrorContains(t, err, "--secret-key-file")
	require.NotContains(t, err.Error(), plain)
	searched(t, bare.cfg.DataDir)
}

func TestAFileWithAValueToBeSealedIsNeitherServedNorShown(t *testing.T) {
	k, log := sealingKit(t, map[string]string{"a.json": `{"n":1}`})
	k.put("a.json", `{"n":{"$seal":"`+plain+`"}}`)
	k.Reload()
	k.await("the fault", func() bool { return k.Snapshot().Node("a.json").Broken() != "" })
	require.Contains(t, k.Snapshot().Node("a.json").Broken(), "only writes through the server are sealed")
	require.Equal(t, `{"n":1}`, k.text("a.json"), "the last good one is served")
	for _, text := range []string{`{"n":{"$seal":"` + plain + `"}}`, `{"n":{"$seal":"` + plain, `{"n":{"\u0024seal":"` + plain} {
		k.put("a.json", text)
		_, err := k.ReadFile("a.json", anySize)
		require.Equal(t, codes.Forbidden, codes.Of(err), text)
		require.NotContains(t, err.Error(), plain)
	}
	k.put("a.json", `{"n":"$seal"}`)
	_, err := k.ReadFile("a.json", anySize)
	require.NoError(t, err, "a text like others")
	require.NoError(t, k.Close())
	require.NotContains(t, log.String(), plain)
	searched(t, k.cfg.DataDir)
}

// What is remembered of a request with a token must not be a digest by which values can be guessed.
func TestTheSameRequestToSealIsMadeOnceAndRememberedByADigestThatNeedsTheKey(t *testing.T) {
	k, _ := sealingKit(t, nil)
	by := &access.Actor{Token: "t1"}
	req := func(value string) change.Request {
		return change.Request{Actor: by, Documents: []change.Document{write("a.json", `{"$seal":"`+value+`"}`)}}
	}
	first, err := changeNow(t, k.Store, req("x"))
	require.NoError(t, err)
	was := k.text("a.json")
	again, err := changeNow(t, k.Store, req("x"))
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Revision, again.Revision)
	require.Equal(t, was, k.text("a.json"))
	_, err = changeNow(t, k.Store, req("y"))
	require.Equal(t, codes.TokenReused, codes.Of(err))

	job := &setJob{reqs: []SetRequest{{Name: "a.json", Contents: []byte(`{"$seal":"x"}`)}}}
	plainly := job.question()
	job.conceal(testRing("k"))
	require.NotEqual(t, plainly, job.question())
	other := &setJob{reqs: []SetRequest{{Name: "a.json", Contents: []byte(`{"$seal":"x"}`)}}}
	other.conceal(testRing("other"))
	require.NotEqual(t, job.question(), other.question())
}

func TestSealedValuesMayBeLongerThanAFile(t *testing.T) {
	k, _ := sealingKit(t, nil)
	require.NoError(t, k.Close())
	k.cfg.MaxFileBytes = 100
	k.open()
	_, err := k.set(SetRequest{Name: "a.json", Contents: []byte(`{"$seal":"` + strings.Repeat("x", 50) + `"}`), Exact: true})
	require.Equal(t, codes.TooLarge, codes.Of(err))
}
