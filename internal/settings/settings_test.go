package settings_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/settings"
)

type text string

func (t *text) Set(s string) error { *t = text(s); return nil }
func (t *text) String() string     { return string(*t) }

type number int

func (n *number) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("not a whole number")
	}
	*n = number(v)
	return nil
}
func (n *number) String() string { return strconv.Itoa(int(*n)) }

// sample has two settings; listenFlag is what the flag was set to, if not empty.
func sample(listenFlag string) *settings.Set {
	s := &settings.Set{Prefix: "APP", Foreign: []string{"APP_ADDR"}}
	listen, most := text("default:1"), number(7)
	if listenFlag != "" {
		listen = text(listenFlag)
	}
	s.Add("listen", &listen, listenFlag != "")
	s.Add("max-connections", &most, false)
	return s
}

func TestTheStrongestSourceWins(t *testing.T) {
	const file = "listen = file:1\n"
	env := []string{"APP_LISTEN=env:1", "PATH=/bin"}
	cases := []struct {
		name, flag, file string
		env              []string
		value, origin    string
	}{
		{"default", "", "", nil, "default:1", "default"},
		{"file", "", file, nil, "file:1", "file app.conf:1"},
		{"env", "", "", env, "env:1", "env APP_LISTEN"},
		{"env over file", "", file, env, "env:1", "env APP_LISTEN"},
		{"flag", "flag:1", "", nil, "flag:1", "flag --listen"},
		{"flag over file", "flag:1", file, nil, "flag:1", "flag --listen"},
		{"flag over env", "flag:1", "", env, "flag:1", "flag --listen"},
		{"flag over env over file", "flag:1", file, env, "flag:1", "flag --listen"},
		{"a flag set to the default's text is a flag", "default:1", file, env, "default:1", "flag --listen"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := sample(c.flag)
			require.NoError(t, s.Resolve("app.conf", c.file, c.env))
			entry := s.Entries()[0]
			require.Equal(t, c.value, entry.Value.String())
			require.Equal(t, c.origin, entry.Origin.String())
			require.Equal(t, "default", s.Entries()[1].Origin.String(), "the other setting is untouched")
		})
	}
}

func TestMistakesAreNamed(t *testing.T) {
	cases := []struct {
		name, flag, file string
		env              []string
		want             []string
	}{
		{"unknown key", "", "\nlisen = x\n", nil, []string{`app.conf:2: there is no setting "lisen"; did you mean listen?`}},
		{"unknown key far from all", "", "zzz = x", nil, []string{`"zzz"; known are listen, max-connections`}},
		{"key with an underscore", "", "max_connections = 1", nil, []string{"did you mean max-connections?"}},
		{"unknown variable", "", "", []string{"APP_LISTN=x"}, []string{"environment variable APP_LISTN: there is no such setting; did you mean APP_LISTEN?"}},
		{"bad value in a file", "", "max-connections = many", nil, []string{"app.conf:1: max-connections = many: not a whole number"}},
		{"bad value in the environment", "", "", []string{"APP_MAX_CONNECTIONS="}, []string{"environment variable APP_MAX_CONNECTIONS=: not a whole number"}},
		{"bad value that a stronger source hides", "", "max-connections = many", []string{"APP_MAX_CONNECTIONS=3"}, []string{"app.conf:1: max-connections = many"}},
		{"no equals sign", "", "listen x", nil, []string{`app.conf:1: a line is "key = value" or starts with #, not "listen x"`}},
		{"set twice", "", "listen = a\nlisten = b", nil, []string{"app.conf:2: listen is set in line 1 already"}},
		{"open quote", "", `listen = "a`, nil, []string{"app.conf:1: the quoted value"}},
		{"text behind a quote", "", `listen = "a" b`, nil, []string{"nothing but a comment may follow"}},
		{"all at once", "", "a = 1\nb = 2", []string{"APP_C=3"}, []string{"app.conf:1:", "app.conf:2:", "APP_C"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := sample(c.flag).Resolve("app.conf", c.file, c.env)
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	others := []string{
		"APP_ADDR=10.0.0.1:1", // on the caller's list
		"APPLE_LISTEN=x", "APP=x",
		"APP_SERVICE_HOST=10.0.0.1", "APP_SERVICE_PORT=4800", "APP_SERVICE_PORT_CONF=4800",
		"APP_PORT=tcp://10.0.0.1:4800", "APP_PORT_4800_TCP=tcp://10.0.0.1:4800", "APP_PORT_4800_TCP_PROTO=tcp",
		"APP_PORT_4800_TCP_PORT=4800", "APP_PORT_4800_TCP_ADDR=10.0.0.1", "APP_HEADLESS_SERVICE_HOST=None",
	}
	for _, variable := range others {
		t.Run(variable, func(t *testing.T) {
			s := sample("")
			require.NoError(t, s.Resolve("", "", []string{variable}))
			require.Equal(t, settings.Default, s.Entries()[0].Origin.Kind)
		})
	}
}

func TestFileFormat(t *testing.T) {
	cases := []struct{ line, want string }{
		{"listen=a:1", "a:1"},
		{"  listen =  a:1  ", "a:1"},
		{"listen = a:1 # why", "a:1"},
		{"listen = a#1", "a#1"},
		{"listen = # nothing", ""},
		{"listen =", ""},
		{`listen = "a # 1"  # why`, "a # 1"},
		{`listen = " a\t\"1\" "`, " a\t\"1\" "},
		{"listen = a=b", "a=b"},
		{"# listen = no\nlisten = yes\r\n", "yes"},
	}
	for _, c := range cases {
		t.Run(c.line, func(t *testing.T) {
			s := sample("")
			require.NoError(t, s.Resolve("app.conf", c.line, nil))
			require.Equal(t, c.want, s.Entries()[0].Value.String())
		})
	}
}

func TestPrintShowsEachValueAndItsSource(t *testing.T) {
	s := sample("flag:1")
	require.NoError(t, s.Resolve("app.conf", "max-connections = 9", nil))
	var out strings.Builder
	require.NoError(t, s.Print(&out))
	require.Equal(t, "listen = flag:1      # flag --listen\nmax-connections = 9  # file app.conf:1\n", out.String())
}

// What Print writes is a config file that gives every value back.
func TestPrintedSettingsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "value")
		s := sample("")
		require.NoError(t, s.Resolve("", "", []string{"APP_LISTEN=" + want}))
		var out strings.Builder
		require.NoError(t, s.Print(&out))

		again := sample("")
		require.NoError(t, again.Resolve("printed", out.String(), nil))
		require.Equal(t, want, again.Entries()[0].Value.String())
	})
}

func FuzzConfigFile(f *testing.F) {
	f.Add("listen = a\n# x\nmax-connections = 3")
	f.Add(`listen = "\u00e9`)
	f.Add("=\n==\n = \"\"#")
	f.Fuzz(func(t *testing.T, file string) {
		s := sample("")
		if s.Resolve("app.conf", file, nil) != nil {
			return
		}
		var out strings.Builder
		require.NoError(t, s.Print(&out))
		again := sample("")
		require.NoError(t, again.Resolve("printed", out.String(), nil))
		require.Equal(t, s.Entries()[0].Value.String(), again.Entries()[0].Value.String())
	})
}
