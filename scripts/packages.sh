#!/bin/sh
# Sees to it that the programs which tests and benchmarks compare with or work on
# are there: takes them from Debian's packages where this machine can, and says
# what is missing where it cannot. Arguments: pairs of COMMAND=PACKAGE.
set -eu

missing=
for pair in "$@"; do
	command -v "${pair%%=*}" >/dev/null 2>&1 || missing="$missing ${pair#*=}"
done
test -n "$missing" || exit 0

as_root=
test "$(id -u)" = 0 || as_root='sudo -n'
if command -v apt-get >/dev/null 2>&1; then
	echo "installing$missing"
	export DEBIAN_FRONTEND=noninteractive
	if $as_root apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 ||
		{ $as_root apt-get update >/dev/null 2>&1 && $as_root apt-get install -y --no-install-recommends $missing >/dev/null 2>&1; }; then
		exit 0
	fi
fi
echo "error: install these packages first (names of Debian):$missing" >&2
exit 1
