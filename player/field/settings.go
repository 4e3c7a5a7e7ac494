package field

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Settings are those of landing, under the names that they have for homo's landers.
type Settings struct {
	Tables       int           `kv:"tables,count"`  // homo.dirty.tableNum: how many dirty tables there are
	Prefix       string        `kv:"prefix"`        // homo.dirty.table.prefix: of their names
	SavingSuffix string        `kv:"saving_suffix"` // homo.dirty.snapshot.suffix: of the name of what is being landed
	ErrorSuffix  string        `kv:"error_suffix"`  // homo.dirty.lock.error.suffix: of the name of a list of errors
	LockTime     time.Duration `kv:"lock_time"`     // homo.dirty.lock.expireTime, in seconds: after so long without a sign of life a lander has lost its tables
	Delay        time.Duration `kv:"delay"`         // homo.dirty.landing.delayTime, in ms: between two batches of a table that has no backlog
	Batch        int           `kv:"batch,count"`   // homo.dirty.landing.batchNum: rows at a time
	// Idle is homo.redis.expire, in seconds: how long an owner is neither read nor written
	// before its landed fields leave memory; 0: they stay.
	Idle time.Duration `kv:"-"`
	// Purge is homo.dirty.removed.expireTime, in seconds: how long removed fields can be
	// restored, and are kept; 0: for ever.
	Purge time.Duration `kv:"-"`
}

// Limits of the settings.
const (
	MaxTables = 1024
	MaxBatch  = 4000
	leastIdle = time.Minute // longer than writes that were handed over need to be looked for
)

// LeastPurge is the least time that removed fields can be restored, and MaxBatchTime is how
// long a lander may take to write a batch, from asking for it.
const (
	LeastPurge   = time.Hour
	MaxBatchTime = LeastPurge / 2
)

// Defaults are the settings of a lander that was told none.
func Defaults() Settings {
	return Settings{Tables: 1, Prefix: "dirtyKey", LockTime: 1000 * time.Second, SavingSuffix: "saving", ErrorSuffix: "error",
		Batch: 1000, Delay: 10 * time.Second, Idle: time.Hour}
}

// ParseSettings reads a flat JSON object. Numbers may be written as texts; what is missing has
// its default, and members with other names are none of ours, unless they look as if they should
// be. Errors name the member.
func ParseSettings(text []byte) (Settings, error) {
	s := Defaults()
	members, kind, err := jsontext.ScanMessage(nil, text)
	if err != nil {
		return s, codes.Errorf(codes.BadJSON, "the landing settings are not valid JSON: %w", err)
	}
	if kind != jsontext.Object {
		return s, codes.Errorf(codes.BadJSON, "the landing settings must be a JSON object")
	}
	seen := map[string]bool{}
	for _, m := range members {
		name := string(m.Key)
		read := settings[name]
		if read == nil {
			if err := stray(name, m.Kind); err != nil {
				return Defaults(), err
			}
			continue
		}
		if seen[name] { // the first of two counts, as everywhere
			continue
		}
		seen[name] = true
		value := string(m.Raw)
		if m.Kind == jsontext.String {
			value = string(jsontext.Unquote(m.Raw))
		}
		if err := read(&s, value); err != nil {
			return Defaults(), codes.Errorf(codes.BadRequest, "%s: %w", name, err)
		}
	}
	return s, nil
}

var settings = map[string]func(*Settings, string) error{
	"homo.dirty.tableNum":           func(s *Settings, v string) error { return number(v, 1, MaxTables, &s.Tables) },
	"homo.dirty.table.prefix":       func(s *Settings, v string) error { return text(v, &s.Prefix) },
	"homo.dirty.lock.expireTime":    func(s *Settings, v string) error { return period(v, 1, 86_400, time.Second, &s.LockTime) },
	"homo.dirty.snapshot.suffix":    func(s *Settings, v string) error { return text(v, &s.SavingSuffix) },
	"homo.dirty.lock.error.suffix":  func(s *Settings, v string) error { return text(v, &s.ErrorSuffix) },
	"homo.dirty.landing.batchNum":   func(s *Settings, v string) error { return number(v, 1, MaxBatch, &s.Batch) },
	"homo.dirty.landing.delayTime":  func(s *Settings, v string) error { return period(v, 1, 86_400_000, time.Millisecond, &s.Delay) },
	"homo.dirty.removed.expireTime": func(s *Settings, v string) error { return orNever(v, LeastPurge, 100*365*24*time.Hour, &s.Purge) },
	"homo.redis.expire":             func(s *Settings, v string) error { return orNever(v, leastIdle, 365*24*time.Hour, &s.Idle) },
}

// stray refuses a member that is none of the settings and looks like one.
func stray(name string, kind jsontext.Kind) error {
	begins := func(of string) bool { return strings.HasPrefix(plain(of), plain(name)) }
	all := slices.Sorted(maps.Keys(settings))
	if kind == jsontext.Object && plain(name) != "" && (slices.ContainsFunc(all, begins) || plain(name) == "dirty") {
		return codes.Errorf(codes.BadRequest, "%.60q is an object: the settings of landing are flat, as %q: 4", name, "homo.dirty.tableNum")
	}
	alike := func(of string) bool { // but for case, signs, and what stands before
		return plain(of) == plain(name) || strings.TrimPrefix(plain(of), "homo") == plain(name)
	}
	if i := slices.IndexFunc(all, alike); i >= 0 {
		return codes.Errorf(codes.BadRequest, "there is no setting %.60q: is it %q?", name, all[i])
	}
	if strings.HasPrefix(plain(name), "homo") {
		return codes.Errorf(codes.BadRequest, "there is no setting %.60q; there are %s", name, strings.Join(all, ", "))
	}
	return nil
}

// plain is a name without case and signs.
func plain(name string) string {
	return strings.NewReplacer(".", "", "_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

func number(value string, least, most int, to *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return codes.Errorf(codes.BadRequest, "%.40q is not a whole number from %d to %d", value, least, most)
	}
	*to = n
	return nil
}

func period(value string, least, most int, unit time.Duration, to *time.Duration) error {
	var n int
	err := number(value, least, most, &n)
	*to = time.Duration(n) * unit
	return err
}

// orNever reads a number of seconds, or 0.
func orNever(value string, least, most time.Duration, to *time.Duration) error {
	if value == "0" {
		*to = 0
		return nil
	}
	if err := period(value, int(least/time.Second), int(most/time.Second), time.Second, to); err != nil {
		return codes.Errorf(codes.BadRequest, "%w, nor 0 for never", err)
	}
	return nil
}

func text(value string, to *string) error {
	const most = 64
	if value == "" || len(value) > most {
		return codes.Errorf(codes.BadRequest, "%.40q must have 1 to %d bytes", value, most)
	}
	*to = value
	return nil
}

// List is the name of a dirty table for operators.
func (s Settings) List(table int) string { return s.Prefix + ":" + strconv.Itoa(table) }
