#!/usr/bin/env bash
# Which policy when: how long each takes for sleeping tasks of known cost.
#   skewed: Pareto lengths of 50 ms to 3 s; 10 keys
#   hot:    lengths of 50 to 150 ms; one of 10 keys has half of the tasks
#   heavy:  4 tasks of 3 s and one key behind the light ones of 9 others
# It prints the makespan, relative to the least that any schedule takes (the sum of all
# tasks over the workers, the longest task or, for keyed, the longest key), and the mean
# wait of a task and of a key, the mean of its tasks, relative to fifo. Figures are medians.
# Usage: policies.sh [CREW]   (default: crew on PATH); WORKERS=8, TASKS=200, RUNS=3
set -euo pipefail
crew=${1:-crew} workers=${WORKERS:-8} tasks=${TASKS:-200} runs=${RUNS:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Lines of key, seconds and milliseconds. The random numbers are Park and Miller's, so that
# every awk makes the same tasks.
awk -v n="$tasks" -v dir="$dir" '
	function random() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
	function put(file, key, ms) { ms = int(ms); printf "k%d\t%.3f\t%d\n", key, ms / 1000, ms > (dir "/" file) }
	BEGIN {
		seed = 1
		for (i = 1; i <= n; i++) {
			pareto = 50 * random() ^ (-1 / 1.3)
			put("skewed", 10 * random(), pareto < 3000 ? pareto : 3000)
			put("hot", random() < 0.5 ? 0 : 1 + 9 * random(), 50 + 100 * random())
			put("heavy", i > n - 4 ? 9 : 9 * random(), i > n - 4 ? 3000 : 50 + 100 * random())
		}
	}'

# measure prints the makespan over the bound, the mean wait of a task and that of a key.
measure() { # name
	awk -F '\t' -v keyed="$([ "$1" = keyed ] && echo 1)" -v workers="$workers" '
		function max(a, b) { return a > b ? a : b }
		NR == FNR { key[NR] = $1; sum += $2; longest = max(longest, $2); of[$1] += $2; next }
		FNR > 1 {
			start[$1] = $3
			if (!first || $3 < first) first = $3
			last = max(last, $3 + $4)
		}
		END {
			bound = max(sum / workers, longest)
			for (k in of) if (keyed) bound = max(bound, of[k])
			for (i in start) { wait = start[i] - first; all += wait; n++; waits[key[i]] += wait; ns[key[i]]++ }
			for (k in waits) { keys += waits[k] / ns[k]; nk++ }
			print (last - first) / bound, all / n, keys / nk
		}' "$2" "$dir/log"
}

for input in skewed hot heavy; do
	printf '%-22s %9s %11s %11s\n' "$input" makespan 'task waits' 'key waits'
	while read -r name options; do
		for _ in $(seq "$runs"); do
			# shellcheck disable=SC2086 # the options are words
			"$crew" -q --output none --joblog "$dir/log" -C '\t' $options sleep '{2}' <"$dir/$input" >/dev/null
			measure "$name" "$dir/$input"
		done >"$dir/$name"
		for field in 1 2 3; do cut -d ' ' -f $field "$dir/$name" | sort -g | sed -n "$((runs / 2 + 1))p"; done | paste - - - >"$dir/median"
		[ "$name" != fifo ] || read -r _ task key <"$dir/median"
		awk -v name="$name" -v task="$task" -v key="$key" '{ printf "%-22s %9.2f %11.2f %11.2f\n", name, $1, $2 / task, $3 / key }' "$dir/median"
	done <<-END
		fifo -j$workers
		round-robin -j$workers --sched round-robin
		least-busy -j$workers --sched least-busy --cost {3}
		longest-first -j$workers --order longest-first --cost {3}
		shortest-first -j$workers --order shortest-first --cost {3}
		fair -j$workers --sched fair --key {1} --cost {3}
		keyed -j$workers --sched keyed --key {1}
		topic-two-for-k0 --sched topic --key {1} --topics k0=2,*=$((workers - 2))
		topic-auto -j$workers --sched topic --key {1} --topics auto
		per-key-2 -j$workers --key {1} --per-key 2
	END
done
