// Command operations writes what follows from the tables of what can be asked of the models of
// a cluster's state:
//
//	go generate ./internal/generate/...
//
// These are the rows of the command table, the pages of docs/reference, the paths of the
// OpenAPI document, the methods of the Go client, and what lets the tests of a model ask a
// server instead. What follows from the rows of operations on keys, in package kv, is written
// here, too. A test keeps the files in step with the
// tables. An operation's place in its table is its id on the wire for ever, so it may be
// neither moved nor renamed: the command refuses that.
package main

//go:generate go run .

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"confcenter/op"
)

func main() {
	const root = "../../.."
	files, err := generate(root, models)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), files[name], 0o644)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "operations: %v\n", err)
		os.Exit(1)
	}
}

// generate returns the contents of all files by their names below root.
func generate(root string, models []op.Model) (map[string][]byte, error) {
	files := map[string][]byte{}
	writers := map[string]func(old []byte, models []op.Model) ([]byte, error){
		"protocol/modelcommands.go": func(old []byte, models []op.Model) ([]byte, error) { return rows(old, tables(models)) },
		codesPath:                   func([]byte, []op.Model) ([]byte, error) { return codeTable(), nil },
		commandsPath:                func(_ []byte, models []op.Model) ([]byte, error) { return commandTable(models), nil },
		kvCallsPath: func([]byte, []op.Model) ([]byte, error) {
			byHand, err := os.ReadFile(filepath.Join(root, "client", "kvop.go"))
			if err != nil {
				return nil, err
			}
			return kvCalls(byHand)
		},
		kvPagePath: func([]byte, []op.Model) ([]byte, error) {
			specification, err := os.ReadFile(filepath.Join(root, "PROTOCOL.md"))
			return kvPage(specification), err
		},
		"server/http/openapi.json": func(old []byte, models []op.Model) ([]byte, error) {
			return openapi(kvPaths(old), models)
		},
		"client/calls/calls.go": calls,
	}
	for i := range models {
		writers[referencePath(&models[i])] = func([]byte, []op.Model) ([]byte, error) { return reference(&models[i]), nil }
		writers[strings.TrimPrefix(packageOf(&models[i]), "confcenter/")+"/asked_test.go"] = func([]byte, []op.Model) ([]byte, error) { return asked(&models[i]) }
	}
	for name, write := range writers {
		old, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if files[name], err = write(old, models); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}
