package serving

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"confcenter/access/openid"
	"confcenter/internal/settings"
)

func TestSettingsOfSignInAreChecked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("s\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), []byte(strings.Repeat("s", 5000)), 0o644))
	good := signInOptions{Issuer: "https://id.example.org", Client: "c", External: "https://conf.example.org", SecretFile: filepath.Join(dir, "secret"), Idle: 1e12, Age: 1e13, Most: 1}
	for what, c := range map[string]struct {
		change func(o *signInOptions)
		off    bool // access control is
		want   string
	}{
		"good":                {func(*signInOptions) {}, false, ""},
		"a public client":     {func(o *signInOptions) { o.SecretFile = "" }, false, ""},
		"none":                {func(o *signInOptions) { *o = signInOptions{Idle: 1e12, Age: 1e13, Most: 1} }, true, ""},
		"no access control":   {func(*signInOptions) {}, true, "--access-control"},
		"no issuer":           {func(o *signInOptions) { o.Issuer = "" }, false, "--oidc-issuer"},
		"a secret for nobody": {func(o *signInOptions) { *o = signInOptions{secret: "x", Idle: 1e12, Age: 1e13, Most: 1} }, false, "--oidc-issuer"},
		"no client":           {func(o *signInOptions) { o.Client = "" }, false, "--oidc-client-id"},
		"no address":          {func(o *signInOptions) { o.External = "" }, false, "--external-url"},
		"a plain issuer":      {func(o *signInOptions) { o.Issuer = "http://id.example.org" }, false, "https://"},
		"no such file":        {func(o *signInOptions) { o.SecretFile += "x" }, false, "cannot be read"},
		"a file of else":      {func(o *signInOptions) { o.SecretFile = filepath.Join(dir, "long") }, false, "no file of a secret"},
		"idle for an instant": {func(o *signInOptions) { o.Idle = 1 }, false, "session-idle"},
		"old at once":         {func(o *signInOptions) { o.Age = 1 }, false, "session-age"},
		"no session":          {func(o *signInOptions) { o.Most = 0 }, false, "max-sessions"},
	} {
		o := accessOptions{On: !c.off, SignIn: good, Reviews: reviewOptions{Most: 1, Keep: time.Hour}}
		c.change(&o.SignIn)
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
		"":            {Most: 1, Keep: time.Minute},
		"max-reviews": {Most: 0, Keep: time.Hour},
		"review-keep": {Most: 1, Keep: time.Second},
		"from 1m to":  {Most: 1, Keep: 1e6 * time.Hour},
	} {
		var told string
		o.check(func(format string, args ...any) { told += fmt.Sprintf(format, args...) })
		require.Contains(t, told, want)
		require.Equal(t, want == "", told == "")
	}
}

func TestAdministratorsAreThoseWhoCanProveIt(t *testing.T) {
	provider := signInOptions{Issuer: "https://id.example.org", Client: "c", External: "https://conf.example.org", Idle: 1e12, Age: 1e13, Most: 1}
	for _, c := range []struct {
		name         string
		certificates bool
		signIn       signInOptions
		want         string
	}{
		{"person:Zoe@example.org", false, provider, ""},
		{"cert:CN=root", true, signInOptions{Idle: 1e12, Age: 1e13, Most: 1}, ""},
		{"person:zoe@example.org", true, signInOptions{Idle: 1e12, Age: 1e13, Most: 1}, "without --oidc-issuer"},
		{"cert:CN=root", false, provider, "without --tls-client-ca"},
		{"token:root", true, provider, "auth token NAME --groups administrators"},
		{"listener:x", true, provider, "name cert:SUBJECT or person:ADDRESS"},
	} {
		o := accessOptions{On: true, Administrators: settings.List{c.name}, SignIn: c.signIn, Reviews: reviewOptions{Most: 1, Keep: time.Hour}}
		var told string
		o.check(c.certificates, func(format string, args ...any) { told += fmt.Errorf(format, args...).Error() })
		require.Contains(t, told, c.want, c.name)
		require.Equal(t, c.want == "", told == "", told)
	}
}

func TestWhereTheProviderSendsPeopleBackIsSaid(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Options).Define(flags)
	require.Contains(t, flags.Lookup("external-url").Usage, openid.CallbackPath)
}
