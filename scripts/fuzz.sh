#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME, one after the other: go test
# takes only one at a time. A failing input is kept by go test under testdata/fuzz.
set -eu
: "${FUZZTIME:=30s}" "${GO:=go}"
count=0
for dir in $("$GO" list -f '{{.Dir}}' ./...); do
	for target in $(cat /dev/null "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
		count=$((count + 1))
		"$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$dir" || { echo "FAILED: $target in $dir"; exit 1; }
	done
done
echo "fuzz: $count targets, $FUZZTIME each"
test "$count" -gt 0
