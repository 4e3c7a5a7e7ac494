# Arguments: the server's directory, then its command.
dir=$1
shift
start() {
	"$@" </dev/null >>"$dir/log" 2>&1 &
	pid=$!
}
# PostgreSQL's other processes would work on for a moment without the first.
kill_all() {
	kill -9 $pid $(cat /proc/$pid/task/$pid/children 2>/dev/null) 2>/dev/null
	wait $pid 2>/dev/null
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
