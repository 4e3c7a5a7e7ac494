#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME (30s, or 500x for so many
# executions), one after the other: go test takes only one at a time. A failing
# input is kept by go test under testdata/fuzz.
set -eu
: "${FUZZTIME:=30s}" "${GO:=go}"
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# go test now and then calls it a failure that the time was over in the middle of
# an execution. A real finding names its input or a panic.
time_was_over() {
	grep -q '^ *context deadline exceeded$' "$output" && ! grep -q -e 'Failing input' -e 'panic' -e 'terminated unexpectedly' "$output"
}

count=0
for dir in $("$GO" list -f '{{.Dir}}' ./...); do
	for target in $(cat /dev/null "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
		count=$((count + 1))
		if ! "$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 100x "$dir" >"$output" 2>&1 && ! time_was_over; then
			cat "$output"
			echo "FAILED: $target in $dir"
			exit 1
		fi
		echo "ok: $target $(grep -o 'execs: [0-9]*' "$output" | tail -1)"
	done
done
echo "fuzz: $count targets, $FUZZTIME each"
test "$count" -gt 0
