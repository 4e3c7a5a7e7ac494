#!/bin/sh
# Sees to it that the programs which tests and benchmarks compare with or work on
# are there: takes them from Debian's packages where this machine can, and says
# what is missing where it cannot. Arguments: pairs of COMMAND=PACKAGE, where COMMAND
# may be a pattern of paths.
set -eu
PATH=$PATH:/usr/sbin:/sbin # where servers are, which not everybody has in it

missing=
for pair in "$@"; do
	command -v ${pair%%=*} >/dev/null 2>&1 || missing="$missing ${pair#*=}"
done
test -n "$missing" || exit 0

as_root=
test "$(id -u)" = 0 || as_root='sudo -n'
if command -v apt-get >/dev/null 2>&1; then
	echo "installing$missing"
	export DEBIAN_FRONTEND=noninteractive
	# Tests start servers of their own; the packages' would only take ports and memory.
	policy=/usr/sbin/policy-rc.d
	if ! test -e $policy && printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null 2>&1; then
		trap '$as_root rm -f $policy' EXIT
		$as_root chmod 755 $policy
	fi
	if $as_root apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 ||
		{ $as_root apt-get update >/dev/null 2>&1 && $as_root apt-get install -y --no-install-recommends $missing >/dev/null 2>&1; }; then
		exit 0
	fi
fi
echo "error: install these packages first (names of Debian):$missing" >&2
exit 1
