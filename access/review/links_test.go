package review_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/review"
	"confcenter/codes"
)

// linked is a file with a name that is marked and two that are not, of which max may do nothing with one
// and half may read one only.
func linked(t *testing.T) *kit {
	k := start(t)
	require.NoError(t, k.apply(nil, "free/plain.json", `{"v":1}`, "_access/links.json", `{"rules":[
		{"who":["token:max"],"deny":["*"],"what":["config:free/secret.json"]},
		{"who":["token:half"],"allow":["read","approve"],"what":["config:free/*","config:live/*"]},
		{"who":["token:half"],"deny":["approve"],"what":["config:free/secret.json"]},
		{"who":["token:guest"],"allow":["read","approve"],"what":["config"]}]}`))
	k.link("live/ln.json")
	k.link("free/secret.json")
	return k
}

// link has another name lead to the file.
func (k *kit) link(name string) {
	require.NoError(k.t, os.Symlink("../free/plain.json", filepath.Join(k.dir, name)))
	k.docs.Reload()
	require.NotEmpty(k.t, k.text(name))
}

// TestAChangeIsAboutEachNameOfAFile: who decides needs the rights to all of them, marked or not.
func TestAChangeIsAboutEachNameOfAFile(t *testing.T) {
	k := linked(t)
	zoe, guest := as("zoe"), as("guest")
	all := []string{"config:free/plain.json", "config:free/secret.json", "config:live/ln.json"}
	for i, text := range []string{`{"v":2}`, ""} {
		number := k.held(k.apply(zoe, "free/plain.json", text))
		require.Equal(t, codes.NotFound, codes.Of(k.approve(as("max"), number)), "max may not know of it")
		require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("half"), number)))
		_, err := k.Reject(k.ctx, as("half"), &review.RejectAsk{Number: number})
		require.Equal(t, codes.Forbidden, codes.Of(err))
		shown := k.shown(guest, number)
		require.EqualValues(t, 3, shown.Count)
		require.Equal(t, all, shown.Things)
		require.Equal(t, []review.Kind{review.Changed, review.Deleted}[i], shown.Parts[0].Kind)
		for _, p := range shown.Parts[1:] {
			require.Equal(t, review.Linked, p.Kind, p.What)
		}
		require.NoError(t, k.approve(guest, number))
		for _, name := range all {
			require.Equal(t, text, k.text(strings.TrimPrefix(name, "config:")))
		}
	}
}

// TestANameThatAFileGetsLaterIsNotApproved, because no one was asked whether they may.
func TestANameThatAFileGetsLaterIsNotApproved(t *testing.T) {
	k := linked(t)
	number := k.held(k.apply(as("zoe"), "free/plain.json", `{"v":2}`))
	k.link("free/later.json")
	require.Equal(t, codes.Conflict, codes.Of(k.approve(as("guest"), number)))
	require.Equal(t, `{"v":1}`, k.text("free/plain.json"))
	require.NoError(t, os.Remove(filepath.Join(k.dir, "free/later.json")))
	require.NoError(t, os.Remove(filepath.Join(k.dir, "free/secret.json")))
	k.docs.Reload()
	require.NoError(t, k.approve(as("guest"), number), "fewer names are no harm")
}

// TestARefusalSpeaksOfTheAuthor when it is the author who has lost the right to a name of the file, or to
// what it says: the one who approves is told nothing about themselves.
func TestARefusalSpeaksOfTheAuthor(t *testing.T) {
	k := linked(t)
	number := k.held(k.apply(as("zoe"), "free/plain.json", `{"v":2}`))
	require.NoError(t, k.apply(nil, "_access/lost.json", `{"rules":[{"who":["token:zoe"],"deny":["write"],"what":["config:free/secret.json"]}]}`))
	err := k.approve(root(), number)
	require.Equal(t, codes.Forbidden, codes.Of(err))
	require.ErrorContains(t, err, "the one who asked for change 1 may not make it any more")
	require.NotContains(t, err.Error(), "you")
	require.Equal(t, review.Pending, k.shown(root(), number).State)
	_, err = k.Reject(k.ctx, root(), &review.RejectAsk{Number: number})
	require.NoError(t, err)
}
