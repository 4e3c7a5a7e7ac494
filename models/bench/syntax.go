package bench

import (
	"errors"
	"io"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Limits of the YAML of a specification, whatever it means. What a few bytes of YAML can
// become is not bounded by their number: aliases repeat what they stand for, and a key that
// is there twice is compared with all others.
const (
	maxYAMLSigns = 20_000 // of those that begin a value
	maxYAMLDepth = 20
	maxYAMLKey   = 64 // bytes
)

// parsing is held while a specification is parsed: what that takes is in no pool.
var parsing sync.Mutex

// checkSyntax says what is wrong with the YAML, before anything is made of it.
func checkSyntax(raw string) error {
	signs := 0
	for _, c := range []byte(raw) {
		switch c {
		case ',', ':', '-', '[', '{', '?', '\n', '&', '*':
			signs++
		}
	}
	if signs > maxYAMLSigns {
		return errors.New("the text has too many lines, lists and mappings: split the job")
	}
	var document yaml.Node
	d := yaml.NewDecoder(strings.NewReader(raw))
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return errors.New("the text is empty")
	case err != nil:
		return errors.New(brief(strings.TrimPrefix(err.Error(), "yaml: "), maxProblem))
	}
	return checkNode(&document, 0)
}

func checkNode(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return errors.New("anchors and aliases are not taken: write out what they stand for")
	case depth > maxYAMLDepth:
		return errors.New("the text is nested too deeply")
	}
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case child.Kind != yaml.ScalarNode || len(child.Value) > maxYAMLKey || child.Value == "<<":
				return errors.New("a key is no short text: " + brief(child.Value, maxYAMLKey))
			case seen[child.Value]:
				return errors.New("key " + child.Value + " is there more than once in a mapping")
			}
			seen[child.Value] = true
		}
		if err := checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// brief is the beginning of a text, as valid UTF-8.
func brief(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
