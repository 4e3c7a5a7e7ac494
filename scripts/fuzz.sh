#!/bin/sh
# Runs every fuzz target of the modules in MODULES for FUZZTIME (30s, or 500x for so many
# executions), one after the other: a test binary takes only one at a time, and each
# package's is built once. A failing input is kept under testdata/fuzz. For a number of
# executions the compiler's guidance is not worth its price, every package compiled once more.
set -eu
: "${FUZZTIME:=30s}" "${GO:=go}" "${MODULES:=.}"
case $FUZZTIME in
*x) guided='' ;;
*) guided='-fuzz .' ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
output=$work/output cache=$("$GO" env GOCACHE)/fuzz

# go test now and then calls it a failure that the time was over in the middle of
# an execution. A real finding names its input or a panic.
time_was_over() {
	grep -q '^ *context deadline exceeded$' "$output" && ! grep -q -e 'Failing input' -e 'panic' -e 'terminated unexpectedly' "$output"
}

count=0
for module in $MODULES; do
	"$GO" list -C "$module" -f '{{.ImportPath}} {{.Dir}}' ./...
done >"$work/packages"
while read -r package dir; do
	targets=$(cat /dev/null "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p')
	test -z "$targets" && continue
	"$GO" test -C "$dir" -c $guided -o "$work/test" .
	for target in $targets; do
		count=$((count + 1))
		if ! (cd "$dir" && "$work/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 100x \
			-test.fuzzcachedir "$cache/$package") </dev/null >"$output" 2>&1 && ! time_was_over; then
			cat "$output"
			echo "FAILED: $target in $dir"
			exit 1
		fi
		echo "ok: $target $(grep -o 'execs: [0-9]*' "$output" | tail -1)"
	done
done <"$work/packages"
echo "fuzz: $count targets, $FUZZTIME each"
test "$count" -gt 0
