#!/bin/sh
# Fetches what packages need from other modules and, where some cannot be had, says which in
# one line: the go command repeats itself for every file that imports them.
# Arguments: the directory of a module, then those of `go list`: -test to include what the
# packages' tests need, and packages.
set -eu
go=${GO:-go}
cd "$1" && shift

# What is being downloaded is shown as it comes; the rest is kept.
errors=$({ $go list -deps "$@" 2>&1 >/dev/null || echo failed; } | while IFS= read -r line; do
	case $line in
	"go: downloading "*) printf '%s\n' "$line" >&2 ;;
	*) printf '%s\n' "$line" ;;
	esac
done)
case $errors in *failed) errors=${errors%failed} ;; *) exit 0 ;; esac
# Without an archive's reason in the list, as with GOPROXY=off, the download has it.
named=$(printf '%s\n' "$errors" | grep -E '[^ ]+@v[^ ]+: ' || $go mod download 2>&1 | grep -E '[^ ]+@v[^ ]+: ' || true)
if test -z "$named"; then # something else is wrong, and the go command says what
	printf '%s\n' "$errors" >&2
	exit 1
fi
modules=$(printf '%s\n' "$named" | sed -E 's/^([^ ]*: )?([^ ]+@v[^ :]+): .*/\2/' | sort -u | paste -sd ' ' -)
reason=$(printf '%s\n' "$named" | sed -nE '1s/^([^ ]*: )?[^ ]+@v[^ :]+: //p')
echo "error: could not fetch $modules ($reason); try again, or set GOPROXY to a module proxy that has it" >&2
exit 1
