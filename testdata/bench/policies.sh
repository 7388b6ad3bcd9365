#!/usr/bin/env bash
# Which policy when: makespan and idle time of each, on sleeping tasks.
#   skewed: 2,000 tasks, 1 in 20 fifty times longer than the others
#   hot:    2,000 tasks over 10 keys, half of them of one key
# Usage: policies.sh [CREW]   (default: crew on PATH); WORKERS=8, TASKS=2000
set -euo pipefail
crew=${1:-crew} workers=${WORKERS:-8} tasks=${TASKS:-2000}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

awk -v n="$tasks" 'BEGIN { srand(1); for (i = 1; i <= n; i++) { long = rand() < 0.05
	printf "k%d\t%s\t%d\n", 10 * rand(), long ? "0.2" : "0.004", long ? 50 : 1 } }' >"$dir/skewed"
awk -v n="$tasks" 'BEGIN { srand(1); for (i = 1; i <= n; i++) printf "k%d\t0.01\t1\n", rand() < 0.5 ? 0 : 1 + int(9 * rand()) }' >"$dir/hot"

run() { # name, input, options
	local name=$1 input=$2
	shift 2
	"$crew" -q --output none --joblog "$dir/log" -C '\t' "$@" sleep '{2}' <"$dir/$input" >/dev/null
	awk -v name="$name" -v workers="$workers" 'NR > 1 { s = $3; e = s + $4; busy += $4
			if (!first || s < first) first = s; if (e > last) last = e }
		END { span = last - first; printf "%-34s %8.2f s %7.1f %%\n", name, span, 100 * (1 - busy / (workers * span)) }' "$dir/log"
}

for input in skewed hot; do
	printf '%-34s %10s %9s\n' "$input" makespan idle
	pool="-j$workers"
	run fifo "$input" "$pool"
	run round-robin "$input" "$pool" --sched round-robin
	run least-busy "$input" --sched least-busy "$pool"
	run 'least-busy --cost' "$input" --sched least-busy --cost '{3}' "$pool"
	run keyed "$input" --sched keyed --key '{1}' "$pool"
	run 'topic, all alike' "$input" --sched topic --key '{1}' --topics '*='"$workers"
	run 'topic, two for k0' "$input" --sched topic --key '{1}' --topics 'k0=2,*='"$((workers - 2))"
	run 'topic --topics auto' "$input" --sched topic --key '{1}' --topics auto "$pool"
	run 'fifo --per-key 2' "$input" --key '{1}' --per-key 2 "$pool"
done
