package openid_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access/openid"
	"confcenter/codes"
)

// How people sign in is tested in integration/openid, which has a provider.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSettingsAreChecked(t *testing.T) {
	good := openid.Config{Issuer: "https://id.example.org/realm", ClientID: "c", External: "https://conf.example.org/below"}
	o, err := openid.Open(good)
	require.NoError(t, err)
	require.Equal(t, "https://conf.example.org/below", o.External().String())
	for what, change := range map[string]func(*openid.Config){
		"no issuer":              func(c *openid.Config) { c.Issuer = "" },
		"a plain issuer":         func(c *openid.Config) { c.Issuer = "http://id.example.org" },
		"an issuer with a query": func(c *openid.Config) { c.Issuer = "https://id.example.org?x=1" },
		"an issuer with a user":  func(c *openid.Config) { c.Issuer = "https://a:b@id.example.org" },
		"no client":              func(c *openid.Config) { c.ClientID = "" },
		"no address":             func(c *openid.Config) { c.External = "" },
		"a plain address":        func(c *openid.Config) { c.External = "http://conf.example.org" },
		"no scheme":              func(c *openid.Config) { c.External = "conf.example.org" },
	} {
		bad := good
		change(&bad)
		_, err := openid.Open(bad)
		require.Equal(t, codes.BadRequest, codes.Of(err), what)
	}
}
