package settings

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Choice is a flag that takes one of a few words.
type Choice struct {
	Value   string
	Allowed []string
}

// Set takes text if it is one of the words.
func (c *Choice) Set(text string) error {
	if !slices.Contains(c.Allowed, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Allowed, ", "))
	}
	c.Value = text
	return nil
}

// String is the word chosen.
func (c *Choice) String() string { return c.Value }

// Type is how help shows the flag's argument.
func (c *Choice) Type() string { return strings.Join(c.Allowed, "|") }

// List is a setting with several values.
type List []string

// Set takes words separated by commas, all of them at once.
func (l *List) Set(text string) error {
	*l = nil
	for _, word := range strings.Split(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			*l = append(*l, word)
		}
	}
	return nil
}

// String is what Set takes.
func (l *List) String() string { return strings.Join(*l, ",") }

// Type is how help shows the flag's argument.
func (l *List) Type() string { return "list" }

// Bytes is a flag for a number of bytes, with or without one of byteUnits.
type Bytes int64

var byteUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// Set takes text like 512MiB or 1048576.
func (b *Bytes) Set(text string) error {
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		*b = Bytes(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("must be a number of bytes like 1048576, 512MiB or 4GiB")
}

// String is the size in the largest unit that divides it.
func (b *Bytes) String() string {
	n := int64(*b)
	for _, unit := range byteUnits {
		if n >= unit.bytes && n%unit.bytes == 0 && unit.bytes > 1 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Type is how help shows the flag's argument.
func (b *Bytes) Type() string { return "size" }

// DSN is a flag for the address of a database, whose password is never shown.
type DSN string

var _ Secret = (*DSN)(nil)

// Set takes any text; check judges it.
func (d *DSN) Set(text string) error {
	*d = DSN(text)
	return nil
}

// passwordParameter is how PostgreSQL's drivers take passwords as well.
var passwordParameter = regexp.MustCompile(`([?&](?:ssl)?password=)[^&]*`)

// String hides the password.
func (d *DSN) String() string {
	text := passwordParameter.ReplaceAllString(string(*d), "${1}******")
	scheme, rest, ok := strings.Cut(text, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return text
	}
	user, _, has := strings.Cut(rest[:at], ":")
	if !has {
		return text
	}
	return scheme + "://" + user + ":******" + rest[at:]
}

// Reveal has the password.
func (d *DSN) Reveal() string { return string(*d) }

// Type is how help shows the flag's argument.
func (d *DSN) Type() string { return "dsn" }

// Lookup finds a variable in a list like os.Environ's.
func Lookup(environ []string, name string) (value string, ok bool) {
	for _, pair := range environ {
		if value, ok = strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
