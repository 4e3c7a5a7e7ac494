package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/protocol"
)

// replySize is the body of the reply that the figures speak of, in bytes.
const replySize = 280

// fileNames are the names of the small documents, all of one length so that all
// replies are.
func fileNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("f%05d.json", i)
	}
	return names
}

// smallDocument is a document whose GETCONFIG reply has a body of size bytes, or
// the shortest that has the members.
func smallDocument(name string, i, size int) []byte {
	around := len(protocol.AppendConfigStart(nil, 1700000000, []byte(strconv.Quote(name)))) + len(protocol.ConfigEnd)
	doc := fmt.Sprintf(`{"id":%d,"host":"10.0.%d.%d","part":"%s","pad":"`, i, i/250%250, i%250, strings.Repeat("z", partSize-2))
	pad := size - around - len(doc) - len(`"}`)
	return []byte(doc + strings.Repeat("x", max(0, pad)) + `"}`)
}

const (
	// partPath is a key path of every small document; its value is as long as that
	// of each path of a large one.
	partPath = "/part"
	partSize = 92
)

// largeDocument has members members and about 102 bytes for each: 10,000 of them
// make the 1 MB document. version makes it different from the one before.
func largeDocument(members, version int) []byte {
	doc := make([]byte, 0, members*(partSize+10))
	doc = append(doc, '{')
	pad := strings.Repeat("y", partSize-len(`{"v":10000000,"pad":""}`))
	for i := range members {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = fmt.Appendf(doc, `"k%05d":{"v":%d,"pad":"%s"}`, i, 10_000_000+version, pad)
	}
	return append(doc, '}')
}

// largePaths are the paths of every member of a large document.
func largePaths(members int) []string {
	paths := make([]string, members)
	for i := range paths {
		paths[i] = fmt.Sprintf("/k%05d", i)
	}
	return paths
}

// writeFiles fills dir with n small documents.
func writeFiles(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, name := range fileNames(n) {
		if err := os.WriteFile(filepath.Join(dir, name), smallDocument(name, i, replySize), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func newFiles() *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use:   "files DIR",
		Short: "Write the small documents that get and set use",
		Example: `  ccload files ./conf --count 1000
  ccload get --files 1000`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writeFiles(args[0], n); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d files in %s\n", n, args[0])
			return err
		},
	}
	cmd.Flags().IntVar(&n, "count", 1000, "how many files")
	return cmd
}
