package serving

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"confcenter/cmd/confcenter/screen"
	"confcenter/internal/settings"
	"confcenter/server/tcp"
	"confcenter/server/tcp/netio"
)

// Prefix begins the environment variables of every verb.
const Prefix = "CONFCENTER"

// maxServerID keeps the ids that a server gives out inside the wire's int32 with
// room for 147 million clients: the first is id × 1000 + 1001.
const maxServerID = 2_000_000

// Options are the settings of a server: flags that can also come from the environment and the config file.
//
// wide: flags.
type Options struct {
	tcp          tcp.Config
	conf         string
	data         string
	memory       settings.Bytes
	admission    admissionOptions
	logLevel     settings.Choice
	allowOpen    bool
	drainTimeout time.Duration
	state        stateOptions
	landing      landingOptions
	http         httpOptions
	tls          tlsOptions
	access       accessOptions
	secret       secretOptions
	audit        auditOptions

	flags []*pflag.Flag // those of the settings; set by Define
}

// Define defines a flag for each setting, and nothing else may have defined one before.
func (o *Options) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.tcp.Listen, "listen", "127.0.0.1:4800", "address to serve on, HOST:PORT, where port 0 takes a free one, or unix:PATH for a unix socket")
	o.http.define(f)
	o.tls.define(f)
	settings.Define(f, &o.access)
	settings.Define(f, &o.secret)
	o.audit.What.Allowed = []string{auditAuto, auditOff, auditNoKeys, auditAll}
	settings.Define(f, &o.audit)
	f.StringVar(&o.conf, "conf", "./conf", "directory of the configuration files")
	f.StringVar(&o.data, "data", "./data", "directory of the state store and of the configurations' versions; created if missing; must not be inside --conf")
	f.IntVar(&o.tcp.ServerID, "server-id", 1, "id of this server; the first client gets the id server-id × 1000 + 1001")
	f.IntVar(&o.tcp.Loops, "loops", 0, "event loops; 0 = one per CPU")
	f.Var(&o.memory, "memory", "what the process may use; every purpose has a share, and what does not fit is refused; 0 = three quarters of the control group's limit, or else half of the machine's memory")
	f.IntVar(&o.tcp.MaxConnections, "max-connections", 0, "clients at the same time; further ones are told to try again later; 0 = as many as the limit on open files allows")
	settings.Define(f, &o.admission)
	o.logLevel = screen.LogLevels()
	f.Var(&o.logLevel, "log-level", "lowest level of messages to log")
	f.BoolVar(&o.tcp.FrameExact, "frame-exact", false, "push a change of a base only under the base's name, as CppCloud does, not also under the subscribed name")
	f.BoolVar(&o.tcp.DocLiteral, "doc-literal", false, "answer GETCONFIG with the bare words ok and fail of CppCloud's design document; CppCloud's C++ SDK does not handle these cleanly")
	f.BoolVar(&o.allowOpen, "allow-open", false, "allow an address to listen on that is not loopback without --access-control: anyone who reaches the port may read and write everything. HTTP is then reached by IP address and by the names in --http-host")
	f.DurationVar(&o.tcp.KeepAlive, "keep-alive", 600*time.Second, "silence after which a peer is probed; after twice that it is dropped")
	f.DurationVar(&o.tcp.IdentifyTimeout, "identify-timeout", 30*time.Second, "time a new connection has to identify itself")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 10*time.Second, "longest time from a stop signal to the exit")
	o.state.define(f)
	settings.Define(f, &o.landing)
	f.VisitAll(func(flag *pflag.Flag) { o.flags = append(o.flags, flag) })
}

func (o *Options) set() *settings.Set {
	set := &settings.Set{Prefix: Prefix}
	for _, f := range o.flags {
		set.Add(f.Name, f.Value, f.Changed)
	}
	return set
}

// Variables are the environment variables of the flags.
func Variables() []string {
	var o Options
	o.Define(pflag.NewFlagSet("", pflag.ContinueOnError))
	set := o.set()
	var names []string
	for _, entry := range set.Entries() {
		names = append(names, set.Variable(entry.Name))
	}
	return names
}

// Resolve sets the options from the flags, the environment and the config file, if there is one. foreign
// are variables of the program that are not for a server.
func (o *Options) Resolve(configFile string, environ, foreign []string) (*settings.Set, error) {
	set := o.set()
	set.Foreign = foreign
	o.access.SignIn.secret, _ = settings.Lookup(environ, SecretVariable)
	var text []byte
	if configFile != "" {
		var err error
		if text, err = os.ReadFile(configFile); err != nil {
			return nil, fmt.Errorf("the config file cannot be read: %w", err)
		}
	}
	if err := set.Resolve(configFile, string(text), environ); err != nil {
		return nil, err
	}
	o.secret.text, _ = settings.Lookup(environ, KeyVariable)
	o.http.given = set.Find("http").Origin.Kind != settings.Default
	return set, nil
}

// Check reports all values that a server cannot run with.
func (o *Options) Check() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, at := range []struct{ name, address string }{{"listen", o.tcp.Listen}, {"http", o.http.Listen}, {"tls-listen", o.tls.listen}, {"http-tls", o.http.TLSListen}} {
		if at.address == "" && (at.name != "listen" || o.tls.listen != "") {
			o.access.closed(at.name, refuse)
			continue // it is off
		}
		if strings.HasPrefix(at.name, "http") && strings.HasPrefix(at.address, netio.Unix) {
			refuse("%s = %s: must be HOST:PORT: HTTP is not served on unix sockets", at.name, at.address)
			continue
		}
		if open, err := OpenAddress(at.address); err != nil {
			refuse("%s = %s: %w", at.name, at.address, err)
		} else if open && !o.allowOpen && !o.access.On {
			refuse("%s = %s is not a loopback address: anyone who reaches the port could read and write everything; "+
				"use 127.0.0.1, or --access-control, or --allow-open if the network in front of it is trusted", at.name, at.address)
		}
	}
	if o.tcp.ServerID < 1 || o.tcp.ServerID > maxServerID {
		refuse("server-id = %d: must be from 1 to %d", o.tcp.ServerID, maxServerID)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"loops", o.tcp.Loops}, {"max-connections", o.tcp.MaxConnections}, {"http-max-connections", o.http.MaxConnections}} {
		if n.value < 0 {
			refuse("%s = %d: must not be negative", n.name, n.value)
		}
	}
	o.admission.check(refuse)
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{
		{"keep-alive", o.tcp.KeepAlive, time.Millisecond}, {"identify-timeout", o.tcp.IdentifyTimeout, time.Millisecond},
		{"drain-timeout", o.drainTimeout, time.Millisecond}, {"slow-request", o.http.SlowRequest, time.Millisecond},
		{"kv-log-age", o.state.LogAge, time.Second}, {"kv-history-age", o.state.HistoryAge, time.Second},
	} {
		if d.value < d.least {
			refuse("%s = %s: must be at least %s", d.name, d.value, d.least)
		}
	}
	o.checkMemory(refuse)
	o.state.check(refuse)
	o.landing.check(refuse)
	o.http.check(refuse)
	o.tls.check(o.servesTLS(), refuse)
	o.access.check(o.tls.files.ClientCA != "", refuse)
	o.secret.check(refuse)
	o.audit.check(o.access.On, refuse)
	if o.data == "" {
		refuse("data = : must name a directory")
	}
	if info, err := os.Stat(o.conf); errors.Is(err, fs.ErrNotExist) {
		refuse("conf = %s: there is no such directory; create it, or name the right one with --conf", o.conf)
	} else if err != nil {
		refuse("conf = %s: %w", o.conf, err)
	} else if !info.IsDir() {
		refuse("conf = %s: is not a directory", o.conf)
	}
	return errors.Join(problems...)
}

// OpenAddress reports whether other machines can reach address. A host name counts as
// open because its meaning can change.
func OpenAddress(address string) (bool, error) {
	if path, local := strings.CutPrefix(address, netio.Unix); local {
		if path == "" {
			return false, errors.New("must be unix:PATH, for example unix:/run/confcenter.sock")
		}
		return false, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, errors.New("must be HOST:PORT, for example 127.0.0.1:4800")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("port %q must be a number from 0 to 65535", port)
	}
	if host == "localhost" {
		return false, nil
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback(), nil
}

// OthersRead reports whether a file of a secret can be read by everyone on the machine. Windows
// does not say.
func OthersRead(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}
