package status

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/confstore"
)

// Check is one condition of health. It must be cheap and must not wait, because it
// runs for every probe.
type Check struct {
	name string
	run  func() error
	mild bool // it fails no probe and is only told
}

// Live are the checks whose failure only a restart repairs.
func (s *Server) Live() []Check {
	var checks []Check
	if s.TCP != nil {
		checks = append(checks, Check{name: "server", run: s.TCP.Live})
	}
	if s.Restart != nil {
		checks = append(checks, Check{name: "restart", run: s.Restart})
	}
	return checks
}

// Ready are what decides whether this server should get requests, writes among them: who
// needs reads only leaves the checks of the stores out. Broken files do not count,
// because their last valid version is served.
func (s *Server) Ready() []Check {
	checks := s.Live()
	if s.TCP != nil {
		checks = append(checks, Check{name: "accepting", run: s.TCP.Ready})
	}
	for _, one := range s.troubledStores() {
		checks = append(checks, Check{name: one.name, run: func() error { return s.writable(one) }})
	}
	if _, ok := s.State.(damaged); ok {
		checks = append(checks, Check{name: "damage", mild: true, run: func() error {
			if t := s.damage(); t != nil {
				return t.Err
			}
			return nil
		}})
	}
	if docs := s.Config; docs != nil && docs.NeverGood([]byte(confstore.MetaName)) != nil { // since the start
		checks = append(checks, Check{name: "meta", run: func() error {
			if broken := docs.NeverGood([]byte(confstore.MetaName)); broken != nil {
				return fmt.Errorf("%w; programs would get no main configuration, and nothing that they inherit", broken)
			}
			return nil
		}})
	}
	if s.Certificates != nil {
		checks = append(checks, Check{"tls", s.Certificates, true})
	}
	if s.Secrets != nil {
		checks = append(checks, Check{"secrets", s.Secrets, true})
	}
	if s.Access != nil {
		checks = append(checks, Check{"access", s.Access, true})
	}
	if len(s.Open) > 0 {
		checks = append(checks, Check{"access", func() error { // there should be access control
			return codes.Errorf(codes.Forbidden, "OPEN ACCESS: anyone who reaches %s may read and write everything (--allow-open)", strings.Join(s.Open, ", "))
		}, true})
	}
	return checks
}

// Answer is what a probe is told, as Kubernetes and etcd tell it: ok, or the result of
// every check if one fails or the query has verbose. exclude leaves a check out of
// the verdict. What the checks say is of directories, disks and keys: without details
// there is no more than the verdict.
func Answer(probe string, checks []Check, query url.Values, details bool) (text string, ok bool) {
	excluded := query["exclude"]
	var lines strings.Builder
	failed := false
	for _, c := range checks {
		err := c.run()
		switch i := slices.Index(excluded, c.name); {
		case i >= 0:
			excluded = slices.DeleteFunc(excluded, func(name string) bool { return name == c.name })
			lines.WriteString("[+]" + c.name + " excluded: ok\n")
		case err != nil && c.mild:
			lines.WriteString("[!]" + c.name + " trouble: " + err.Error() + "\n")
		case err != nil:
			failed = true
			lines.WriteString("[-]" + c.name + " failed: " + err.Error() + "\n")
		default:
			lines.WriteString("[+]" + c.name + " ok\n")
		}
	}
	for _, name := range excluded {
		lines.WriteString("warn: there is no check " + strings.ToValidUTF8(name[:min(len(name), 64)], "?") + " to exclude\n")
	}
	switch {
	case failed && details:
		text = lines.String() + probe + " check failed\n"
	case failed:
		text = probe + " check failed\n"
	case details && query.Has("verbose"):
		text = lines.String() + probe + " check passed\n"
	default:
		text = "ok\n"
	}
	return text, !failed
}
