# Arguments: the server's directory, then its command.
dir=$1
shift
start() {
	"$@" </dev/null >>"$dir/log" 2>&1 &
	pid=$!
}
# PostgreSQL's other processes would work on for a moment without the first, which stands
# still so that there are no more of them than are killed. It does not start again before
# they are gone, and with them what they share: a process that has no program any more may
# still hold that, a zombie does not.
kill_all() {
	kill -STOP $pid 2>/dev/null
	while grep -q '^State:[[:space:]][^TZX]' /proc/$pid/status 2>/dev/null; do sleep 0.01; done
	others=$(cat /proc/$pid/task/$pid/children 2>/dev/null)
	kill -9 $pid $others 2>/dev/null
	wait $pid 2>/dev/null
	for other in $others; do
		while grep -q '^State:[[:space:]][^ZX]' /proc/$other/status 2>/dev/null; do sleep 0.01; done
	done
	rm -f "$dir/data/postmaster.pid"
}
start "$@"
while read -r order; do
	case $order in
	kill) kill_all ;;
	start) start "$@" ;;
	esac
	echo "$order"
done
kill_all
rm -rf "$dir"
