package serving

import (
	"time"

	"confcenter/access/audit"
	"confcenter/internal/settings"
)

// What --audit can be.
const (
	auditAuto   = "auto"
	auditOff    = "off"
	auditNoKeys = "no-keys"
	auditAll    = "all"
)

// recentAudit is how many bytes of lines are kept in memory for those who follow.
const recentAudit = 4 << 20

// auditOptions are the settings of the audit.
type auditOptions struct {
	What   settings.Choice `flag:"audit" default:"auto" doc:"what has a line in the audit: all, or no-keys for everything but changes of keys, players' fields and cluster state, or nothing with off; auto = all with --access-control, otherwise off"`
	Days   int             `flag:"audit-days" default:"90" doc:"how many days lines of the audit are kept"`
	Bytes  settings.Bytes  `flag:"audit-bytes" default:"1GiB" doc:"lines of the audit kept, in bytes; the oldest go first"`
	File   string          `flag:"audit-file" doc:"file to which each line of the audit is appended as JSON, readable by its owner only; begun again when it was moved away"`
	Syslog string          `flag:"audit-syslog" doc:"where each line of the audit is sent as a message of RFC 5424: the path of a socket such as /dev/log, udp:HOST:PORT or tcp:HOST:PORT"`
}

func (o *auditOptions) check(control bool, refuse func(format string, args ...any)) {
	if o.Days < 1 || o.Days > 36500 {
		refuse("audit-days = %d: must be from 1 to 36500", o.Days)
	}
	if o.Bytes < 1<<20 {
		refuse("audit-bytes = %s: must be at least 1 MiB", &o.Bytes)
	}
	if o.level(control) == auditOff && (o.File != "" || o.Syslog != "") {
		refuse("audit-file and audit-syslog are for an audit, and there is none without --access-control or --audit=%s", auditAll)
	}
	if o.Syslog != "" {
		if _, err := audit.ParseSyslog(o.Syslog); err != nil {
			refuse("audit-syslog: %w", err)
		}
	}
}

// level is what is audited.
func (o *auditOptions) level(control bool) string {
	if o.What.Value != auditAuto {
		return o.What.Value
	}
	if control {
		return auditAll
	}
	return auditOff
}

// names is how long names of tokens are kept that have ended: a day longer than lines about them, which
// are not removed at once.
func (o *auditOptions) names() time.Duration { return time.Duration(o.Days+1) * 24 * time.Hour }

// config is how the audit works that t takes the lines of; nil: there is none.
func (o *auditOptions) config(t *audit.Trail) audit.Config {
	cfg := audit.Config{Trail: t, Age: time.Duration(o.Days) * 24 * time.Hour, Bytes: int64(o.Bytes)}
	if o.File != "" {
		cfg.Sinks = append(cfg.Sinks, audit.NewFile(o.File))
	}
	if o.Syslog != "" {
		if s, err := audit.ParseSyslog(o.Syslog); err == nil { // which check has seen to
			cfg.Sinks = append(cfg.Sinks, s)
		}
	}
	return cfg
}
