package console

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// colour is red, green, blue and opacity, from 0 to 1.
type colour [4]float64

// sheet is the style sheets as one theme has them.
type sheet struct {
	t     *testing.T
	dark  bool
	vars  map[string]string
	rules []rule
}

// rule is what one selector declares.
type rule struct {
	selector string
	says     map[string]string
}

func sheetOf(t *testing.T, dark bool) *sheet {
	s := &sheet{t: t, dark: dark, vars: map[string]string{}}
	text := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(text(t, "base.css")+text(t, "pages.css"), "")
	for _, m := range regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`).FindAllStringSubmatch(text, -1) {
		says := map[string]string{}
		for declaration := range strings.SplitSeq(m[2], ";") {
			if name, value, ok := strings.Cut(declaration, ":"); ok {
				says[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
		for selector := range strings.SplitSeq(m[1], ",") {
			s.rules = append(s.rules, rule{strings.TrimSpace(selector), says})
		}
	}
	for _, r := range s.rules {
		for name, value := range r.says {
			if r.selector == ":root" && strings.HasPrefix(name, "--") {
				s.vars[name] = value
			}
		}
	}
	return s
}

// arguments are those of a function of CSS.
func arguments(text string) (list []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			list = append(list, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(list, strings.TrimSpace(text[from:]))
}

// colour is what a value means; ok is false if it is no colour of its own. current is the one of the text.
func (s *sheet) colour(value string, current colour) (c colour, ok bool) {
	name, inner, function := strings.Cut(strings.TrimSuffix(value, ")"), "(")
	switch {
	case value == "transparent":
		return c, true
	case value == "currentColor":
		return current, true
	case strings.HasPrefix(value, "#"):
		hex := value[1:]
		if len(hex) == 3 {
			hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
		}
		n, err := strconv.ParseUint(hex, 16, 32)
		require.NoError(s.t, err, value)
		return colour{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255, 1}, true
	case !function:
		return c, false
	case name == "var":
		return s.colour(s.vars[inner], current)
	case name == "light-dark":
		pair := arguments(inner)
		if s.dark {
			return s.colour(pair[1], current)
		}
		return s.colour(pair[0], current)
	case name == "color-mix":
		parts := arguments(inner)
		first, share, _ := strings.Cut(parts[1], " ")
		a, _ := s.colour(first, current)
		b, _ := s.colour(parts[2], current)
		percent, err := strconv.ParseFloat(strings.TrimSuffix(share, "%"), 64)
		require.NoError(s.t, err, value)
		return mix(a, b, percent/100), true
	}
	return c, false
}

// mix is as CSS has it: a colour counts by its opacity.
func mix(a, b colour, share float64) (c colour) {
	c[3] = a[3]*share + b[3]*(1-share)
	for i := range 3 {
		if c[3] > 0 {
			c[i] = (a[i]*a[3]*share + b[i]*b[3]*(1-share)) / c[3]
		}
	}
	return c
}

// on is what is seen of a colour that lies on another, which is opaque.
func (c colour) on(under colour) colour { return mix(colour{c[0], c[1], c[2], 1}, under, c[3]) }

func (c colour) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

func contrast(a, b colour) float64 {
	high, low := a.luminance(), b.luminance()
	return (max(high, low) + 0.05) / (min(high, low) + 0.05)
}

// textless are what has a background and no text on it.
var textless = regexp.MustCompile(`^(\.live.* i|\.dot|dialog::backdrop|\.ed-text.*|from)$`)

// colourOf is that of the text of a selector, of its own or of the rule that it makes more special.
func (s *sheet) colourOf(selector string) (colour, bool) {
	for {
		for _, r := range s.rules {
			if r.selector == selector && r.says["color"] != "" {
				return s.colour(r.says["color"], colour{})
			}
		}
		end := max(strings.LastIndex(selector, "."), strings.LastIndex(selector, ":"), strings.LastIndex(selector, "["))
		if end <= 0 || strings.ContainsAny(selector[end:], " ") {
			return s.colour("var(--text)", colour{})
		}
		selector = strings.TrimRight(selector[:end], ":")
	}
}

// TestTextStandsOut holds each colour of text that a style sheet names against what it stands on, as
// WCAG 2.2 AA wants: what the rule itself says, or whatever text can stand on.
func TestTextStandsOut(t *testing.T) {
	const least = 4.5
	for _, dark := range []bool{false, true} {
		s := sheetOf(t, dark)
		var surfaces []colour
		for _, name := range []string{"--bg", "--panel", "--raised", "--hover", "--accent-soft"} {
			c, ok := s.colour("var("+name+")", colour{})
			require.True(t, ok, name)
			surfaces = append(surfaces, c)
		}
		pairs := 0
		check := func(what string, text, under colour) {
			pairs++
			if got := contrast(text.on(under), under); got < least {
				t.Errorf("%s has a contrast of %.2f, dark: %t", what, got, dark)
			}
		}
		for _, r := range s.rules {
			said := r.says["background"]
			if said == "" {
				said = r.says["background-color"]
			}
			if textless.MatchString(r.selector) || r.says["color"] == "" && said == "" {
				continue
			}
			text, ok := s.colourOf(r.selector)
			if !ok {
				continue // inherited
			}
			own, has := s.colour(said, text)
			for i, under := range surfaces {
				if has && own[3] == 1 && i > 0 {
					break
				}
				if has && own[3] > 0 {
					if under = own.on(under); own[3] < 1 && i > 2 {
						break // translucent colours lie on pages and panes
					}
				}
				check(fmt.Sprintf("%s on surface %d", r.selector, i), text, under)
			}
		}
		panel := surfaces[1]
		for _, mark := range []string{".mk-bad", ".diff-left", ".diff-right"} { // what is in the colours of JSON
			for _, token := range []string{".tk-key", ".tk-string", ".tk-number", ".tk-word", ".tk-mark"} {
				text, _ := s.colourOf(token)
				for _, r := range s.rules {
					if under, ok := s.colour(r.says["background"], text); r.selector == mark && ok {
						check(token+" in "+mark, text, under.on(panel))
					}
				}
			}
		}
		for i := range 6 {
			text, _ := s.colourOf(fmt.Sprintf(".hue-%d", i))
			for _, r := range s.rules {
				if under, ok := s.colour(r.says["background"], text); r.selector == ".origin:not(.own)" && ok {
					check(fmt.Sprintf("the origin of hue %d", i), text, under.on(panel))
				}
			}
		}
		require.Greater(t, pairs, 200)
	}
}

// TestControlsStandOut: the edge of what can be operated is seen as well, 3:1.
func TestControlsStandOut(t *testing.T) {
	for _, dark := range []bool{false, true} {
		s := sheetOf(t, dark)
		edge, ok := s.colour("var(--control)", colour{})
		require.True(t, ok, "--control")
		for _, name := range []string{"--bg", "--panel", "--raised"} {
			under, _ := s.colour("var("+name+")", colour{})
			require.GreaterOrEqual(t, contrast(edge, under), 3.0, "%s, dark: %t", name, dark)
		}
		for _, selector := range []string{".btn", `input[type="text"]`, "select", ".choice"} {
			found := false
			for _, r := range s.rules {
				found = found || r.selector == selector && strings.HasSuffix(r.says["border"], "var(--control)")
			}
			require.True(t, found, selector)
		}
	}
}
