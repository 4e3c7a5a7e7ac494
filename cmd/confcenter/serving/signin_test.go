package serving

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/settings"
)

func TestSettingsOfSignInAreChecked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("s\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), []byte(strings.Repeat("s", 5000)), 0o644))
	good := signInOptions{issuer: "https://id.example.org", client: "c", external: "https://conf.example.org", secretFile: filepath.Join(dir, "secret"), idle: 1e12, age: 1e13, most: 1}
	for what, c := range map[string]struct {
		change func(o *signInOptions)
		off    bool // access control is
		want   string
	}{
		"good":                {func(*signInOptions) {}, false, ""},
		"a public client":     {func(o *signInOptions) { o.secretFile = "" }, false, ""},
		"none":                {func(o *signInOptions) { *o = signInOptions{idle: 1e12, age: 1e13, most: 1} }, true, ""},
		"no access control":   {func(*signInOptions) {}, true, "--access-control"},
		"no issuer":           {func(o *signInOptions) { o.issuer = "" }, false, "--oidc-issuer"},
		"a secret for nobody": {func(o *signInOptions) { *o = signInOptions{secret: "x", idle: 1e12, age: 1e13, most: 1} }, false, "--oidc-issuer"},
		"no client":           {func(o *signInOptions) { o.client = "" }, false, "--oidc-client-id"},
		"no address":          {func(o *signInOptions) { o.external = "" }, false, "--external-url"},
		"a plain issuer":      {func(o *signInOptions) { o.issuer = "http://id.example.org" }, false, "https://"},
		"no such file":        {func(o *signInOptions) { o.secretFile += "x" }, false, "cannot be read"},
		"a file of else":      {func(o *signInOptions) { o.secretFile = filepath.Join(dir, "long") }, false, "no file of a secret"},
		"idle for an instant": {func(o *signInOptions) { o.idle = 1 }, false, "session-idle"},
		"old at once":         {func(o *signInOptions) { o.age = 1 }, false, "session-age"},
		"no session":          {func(o *signInOptions) { o.most = 0 }, false, "max-sessions"},
	} {
		o := accessOptions{on: !c.off, signIn: good, reviews: reviewOptions{most: 1, keep: time.Hour}}
		c.change(&o.signIn)
		var told []string
		o.check(false, func(format string, args ...any) { told = append(told, fmt.Errorf(format, args...).Error()) })
		if c.want == "" {
			require.Empty(t, told, what)
			continue
		}
		require.Contains(t, strings.Join(told, "\n"), c.want, what)
	}
}

func TestReviewsNeedRoomAndTime(t *testing.T) {
	for want, o := range map[string]reviewOptions{
		"":            {most: 1, keep: time.Minute},
		"max-reviews": {most: 0, keep: time.Hour},
		"review-keep": {most: 1, keep: time.Second},
		"from 1m to":  {most: 1, keep: 1e6 * time.Hour},
	} {
		var told string
		o.check(func(format string, args ...any) { told += fmt.Sprintf(format, args...) })
		require.Contains(t, told, want)
		require.Equal(t, want == "", told == "")
	}
}

func TestAdministratorsAreThoseWhoCanProveIt(t *testing.T) {
	provider := signInOptions{issuer: "https://id.example.org", client: "c", external: "https://conf.example.org", idle: 1e12, age: 1e13, most: 1}
	for _, c := range []struct {
		name         string
		certificates bool
		signIn       signInOptions
		want         string
	}{
		{"person:Zoe@example.org", false, provider, ""},
		{"cert:CN=root", true, signInOptions{idle: 1e12, age: 1e13, most: 1}, ""},
		{"person:zoe@example.org", true, signInOptions{idle: 1e12, age: 1e13, most: 1}, "without --oidc-issuer"},
		{"cert:CN=root", false, provider, "without --tls-client-ca"},
		{"token:root", true, provider, "auth token NAME --groups administrators"},
		{"listener:x", true, provider, "name cert:SUBJECT or person:ADDRESS"},
	} {
		o := accessOptions{on: true, administrators: settings.List{c.name}, signIn: c.signIn, reviews: reviewOptions{most: 1, keep: time.Hour}}
		var told string
		o.check(c.certificates, func(format string, args ...any) { told += fmt.Errorf(format, args...).Error() })
		require.Contains(t, told, c.want, c.name)
		require.Equal(t, c.want == "", told == "", told)
	}
}
