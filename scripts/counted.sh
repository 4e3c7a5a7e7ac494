#!/bin/sh
# Runs a command like go test with -v and prints its packages, what fails and, at the end, how many
# tests, subtests not counted, have passed and failed. Arguments: the command.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
	"$@" -v 2>&1
	echo "exit $?"
} | tee "$log" | grep -E '^(ok|FAIL|panic:|-test.shuffle)' | grep -v -- '-test.shuffle'
passed=$(grep -c '^--- PASS' "$log") failed=$(grep -c '^--- FAIL' "$log")
code=$(sed -n '$s/^exit //p' "$log")
test "$code" = 0 || cat "$log"
echo "$passed passed, $failed failed"
exit "$code"
