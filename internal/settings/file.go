package settings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var serviceLink = regexp.MustCompile(`^([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// applyFile reads a config file: one "key = value" per line, where a key is a setting's
// name. Empty lines are ignored, and so is what follows a '#' at the start of a line or
// after a blank. A value with a '#', or with blanks at its ends, is put in double quotes
// with Go's escapes.
func (s *Set) applyFile(fileName, text string) []error {
	var problems []error
	firstLine := map[string]int{}
	report := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s:%d: %w", fileName, line, fmt.Errorf(format, args...)))
	}
	switch {
	case strings.HasPrefix(text, "\ufeff"):
		report(1, "the file begins with a byte order mark; save it without")
		text = strings.TrimPrefix(text, "\ufeff")
	case strings.HasPrefix(text, "\xff\xfe"), strings.HasPrefix(text, "\xfe\xff"):
		report(1, "the file is UTF-16; save it as UTF-8")
		return problems
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		key, value, ok, err := parseLine(line)
		if err != nil {
			report(number, "%w", err)
			continue
		}
		if !ok {
			continue
		}
		e := s.Find(key)
		if e == nil {
			report(number, "there is no setting %q%s", key, didYouMean(key, s.names()))
			continue
		}
		if first, again := firstLine[key]; again {
			report(number, "%s is set in line %d already", key, first)
			continue
		}
		firstLine[key] = number
		if err := e.set(value); err != nil {
			report(number, "%s = %s: %w", key, value, err)
			continue
		}
		e.Origin = Origin{Kind: File, Detail: fmt.Sprintf("%s:%d", fileName, number)}
	}
	return problems
}

// parseLine splits one line; ok is false if it has no setting.
func parseLine(line string) (key, value string, ok bool, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", "", false, nil
	}
	key, value, found := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !found || key == "" || strings.ContainsAny(key, " \t") {
		return "", "", false, fmt.Errorf("a line is \"key = value\" or starts with #, not %q", line)
	}
	if strings.HasPrefix(value, `"`) {
		value, err = parseQuoted(value)
		return key, value, err == nil, err
	}
	return key, strings.TrimSpace(cutComment(value)), true, nil
}

func parseQuoted(text string) (string, error) {
	prefix, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", fmt.Errorf("the quoted value %s has no end, or an escape that Go does not have", text)
	}
	rest := strings.TrimSpace(text[len(prefix):])
	if rest != "" && rest[0] != '#' {
		return "", fmt.Errorf("nothing but a comment may follow the quoted value %s", prefix)
	}
	return strconv.Unquote(prefix)
}

func cutComment(value string) string {
	for i := range len(value) {
		if value[i] == '#' && (i == 0 || value[i-1] == ' ' || value[i-1] == '\t') {
			return value[:i]
		}
	}
	return value
}

// quote formats a value so that parseLine reads it back.
func quote(value string) string {
	plain := value == strings.TrimSpace(value) && value != "" && !strings.HasPrefix(value, `"`) &&
		!strings.ContainsAny(value, "\r\n") && cutComment(value) == value
	if plain {
		return value
	}
	return strconv.Quote(value)
}

func (s *Set) names() []string {
	list := make([]string, 0, len(s.entries))
	for _, e := range s.entries {
		list = append(list, e.Name)
	}
	return list
}

// didYouMean ends a message about an unknown name with the nearest known one if it may be
// a typing mistake, and otherwise with all known ones.
func didYouMean(name string, known []string) string {
	best, distance := "", len(name)/2+1
	for _, candidate := range known {
		if d := editDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return "; known are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// editDistance is Levenshtein's distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := diagonal
			if a[i-1] != b[j-1] {
				replace++
			}
			diagonal = row[j]
			row[j] = min(replace, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
