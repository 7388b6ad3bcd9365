#!/bin/bash
# peers.sh measures crew against xargs, GNU parallel, rush (where it is on PATH)
# and a floor in C, row by row, tools interleaved, and prints medians and ratios.
#
#   CREW=PATH    the crew to measure; built from this checkout where it is unset
#   ROUNDS=N     runs of each tool a row (7); a one-task row takes 20 times as many
#   TASKS=N      tasks where the milestone has 20,000 (5000); slow tools run fewer
#   RECORDS=N    records of the -n1000 row (10000000)
#   LINES=N      lines a task of the tagged row (1000000)
#   BYTES=N      bytes of the rows of blocks (1073741824); parallel gets an eighth
#   HELD=N       fast tasks held back by a slow one (200000)
#   ONLY=REGEX   the rows whose names match
#   QUICK=1      a short form of all: small numbers, 3 rounds
#   DIR=PATH     where to build and measure; removed at the end where it is unset
#
# Rates are tasks (or bytes, lines, records) a second of wall time, so that tools
# may run different numbers of them. A ratio is the median of the ratios of the
# rounds: what disturbs the machine disturbs both. Its status is 0 whether or not
# targets are met.
set -u
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${QUICK:-}" ]; then
	: "${ROUNDS:=3}" "${TASKS:=1000}" "${RECORDS:=1000000}" "${LINES:=100000}" "${HELD:=5000}" "${BYTES:=100000000}"
fi
ROUNDS=${ROUNDS:-7} TASKS=${TASKS:-5000} RECORDS=${RECORDS:-10000000} LINES=${LINES:-1000000} HELD=${HELD:-200000} BYTES=${BYTES:-1073741824}
ONLY=${ONLY:-.}

if [ -z "${DIR:-}" ]; then
	DIR=$(mktemp -d)
	trap 'rm -rf "$DIR"' EXIT
fi
mkdir -p "$DIR"
for name in floor gate meter stats; do
	gcc -O2 -static -pthread -o "$DIR/$name" "$here/$name.c" || exit
done
gcc -O2 -nostdlib -static -o "$DIR/noop" "$here/noop.c" || exit
if [ -z "${CREW:-}" ]; then
	CREW=$DIR/crew
	(cd "$here/../.." && CGO_ENABLED=0 go build -tags urfave_cli_no_docs -o "$CREW" .) || exit
fi
CREW=$(readlink -f "$CREW")
ln -sf "$CREW" "$DIR/crew"
PATH=$DIR:$PATH
cd "$DIR" || exit

have() { command -v "$1" >/dev/null; }
have parallel && parallel --citation </dev/null >/dev/null 2>&1

# The tools of a row, each with its command, its input and its amount of work.
tools=() commands=() inputs=() amounts=()

# tool NAME AMOUNT INPUT COMMAND adds one. INPUT is a file. The COMMAND is a bash
# command line in which "meter" measures what follows it.
tool() {
	tools+=("$1") amounts+=("$2") inputs+=("$3") commands+=("$4")
}

# measure ROW ROUNDS runs all tools of the row in turn, each round beginning with
# another one. It leaves files NAME.runs, a line a round: wall, own, cpu, memory.
measure() {
	local round i k n=${#tools[@]}
	for i in "${!tools[@]}"; do : >"${tools[i]}.runs"; done
	for ((round = 0; round < $2; round++)); do
		for ((k = 0; k < n; k++)); do
			i=$(((round + k) % n))
			bash -c "meter() { command meter '${tools[i]}.runs' \"\$@\"; }; ${commands[i]}" <"${inputs[i]}" >out 2>err ||
				{ echo "$1: ${tools[i]}: $(tail -n 1 err)" >&2; }
		done
	done
}

median() { sort -g | awk '{v[NR]=$1} END {print NR%2 ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }

# column FIELD TOOL AMOUNT is the tool's runs of it: rate, wall, own (a task), memory.
column() {
	awk -v f="$1" -v n="$3" '{
		if (f == "rate") print n/$1
		else if (f == "wall") print $1
		else if (f == "own") print $2/n*1e6
		else print $4/1024
	}' "$2.runs"
}

index() {
	local i
	for i in "${!tools[@]}"; do [ "${tools[i]}" = "$1" ] && { echo "$i"; return; }; done
}

# line ROW TOOL PEER FIELD SENSE TARGET prints a line: the medians of both, the
# ratio, and whether it is at least (SENSE ge) or at most (le) the target.
line() {
	local a b
	a=$(index "$2") b=$(index "$3")
	if [ -z "$b" ]; then
		printf '%-34s %-22s %10s\n' "$1" "$3" "not here"
		return
	fi
	column "$4" "$2" "${amounts[a]}" >a.col
	column "$4" "$3" "${amounts[b]}" >b.col
	local ratio verdict
	ratio=$(paste a.col b.col | awk '{print $2 ? $1/$2 : 0}' | median)
	verdict=$(awk -v r="$ratio" -v s="$5" -v t="$6" 'BEGIN {print (s == "ge" ? r >= t : r <= t) ? "yes" : "no"}')
	printf '%-34s %-22s %10.4g %10.4g %8.2f  %s %-6s %s\n' "$1" "$3" "$(median <a.col)" "$(median <b.col)" "$ratio" \
		"$([ "$5" = ge ] && echo '>=' || echo '<=')" "$6" "$verdict"
}

# limit ROW TOOL FIELD MOST prints a line about one tool and a bound.
limit() {
	local i value
	i=$(index "$2")
	value=$(column "$3" "$2" "${amounts[i]}" | median)
	printf '%-34s %-22s %10.4g %10s %8s  <= %-6s %s\n' "$1" "MiB" "$value" "" "" "$4" \
		"$(awk -v v="$value" -v t="$4" 'BEGIN {print v <= t ? "yes" : "no"}')"
}

# row NAME begins a row, unless ONLY does not want it.
row() {
	tools=() commands=() inputs=() amounts=()
	[[ $1 =~ $ONLY ]]
}

many=$TASKS few=$((TASKS / 10 + 1)) fewer=$((TASKS / 40 + 1))
for n in "$many" "$few" "$fewer" 8 40 500 1000; do seq "$n" >"in.$n"; done
: >empty

cat <<EOF
$(date -u +%FT%TZ)  $(uname -sr), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $ROUNDS rounds, $TASKS tasks
$("$CREW" --version | head -n 1); $(xargs --version | head -n 1); $(have parallel && parallel --version | head -n 1); $(have rush && rush --version | head -n 1 || echo no rush here)

EOF
printf '%-34s %-22s %10s %10s %8s  %-9s %s\n' "work (tasks/s where nothing else is said)" against crew theirs ratio target met

for j in 2 8; do
	if row "no-op -j$j"; then
		tool crew "$many" "in.$many" "meter crew -j$j ./noop"
		tool xargs "$many" "in.$many" "meter xargs -n1 -P$j ./noop"
		tool floor "$many" empty "meter floor $j $many ./noop {}"
		have rush && tool rush "$few" "in.$few" "meter rush -j$j './noop {}'"
		have parallel && tool parallel "$fewer" "in.$fewer" "meter parallel -j$j ./noop"
		measure "no-op -j$j" "$ROUNDS"
		line "no-op -j$j" crew xargs rate ge 3.2
		line "no-op -j$j" crew floor rate ge 0.70
		line "no-op -j$j" crew rush rate ge 12
		line "no-op -j$j" crew parallel rate ge 45
		[ "$j" = 2 ] && line "no-op: own processor time, us" crew xargs own le 0.65
	fi
done

if row "/bin/true -j2"; then
	tool crew "$many" "in.$many" "meter crew -j2 /bin/true"
	tool xargs "$many" "in.$many" "meter xargs -n1 -P2 /bin/true"
	tool floor "$many" empty "meter floor 2 $many /bin/true {}"
	measure "/bin/true" "$ROUNDS"
	line "/bin/true -j2" crew xargs rate ge 1.2
	line "/bin/true -j2" crew floor rate ge 0.78
fi

if row "shell"; then
	tool crew "$many" "in.$many" "meter crew -j2 'echo {}'"
	tool xargs "$many" "in.$many" "meter xargs -P2 -I{} sh -c 'echo {}'"
	have rush && tool rush "$few" "in.$few" "meter rush -j2 'echo {}'"
	have parallel && tool parallel "$fewer" "in.$fewer" "meter parallel -j2 'echo {}'"
	measure "shell" "$ROUNDS"
	line "crew 'echo {}' (xargs sh -c)" crew xargs rate ge 1.15
	line "crew 'echo {}'" crew rush rate ge 2
	line "crew 'echo {}'" crew parallel rate ge 9
fi

if row "string without shell"; then
	tool string "$many" "in.$many" "meter crew -j2 'true {}'"
	tool words "$many" "in.$many" "meter crew -j2 true {}"
	measure "string without shell" "$ROUNDS"
	line "crew 'true {}'" string words rate ge 0.97
fi

if row "100 KB"; then
	tool crew "$few" "in.$few" "meter crew -j2 -n0 head -c 100000 /dev/zero | cat >/dev/null"
	tool xargs "$few" "in.$few" "meter xargs -P2 -I{} head -c 100000 /dev/zero | cat >/dev/null"
	tool floor "$few" empty "meter floor 2 $few /usr/bin/head -c 100000 /dev/zero | cat >/dev/null"
	measure "100 KB" "$ROUNDS"
	line "100 KB a task" crew floor rate ge 0.85
	line "100 KB a task" crew xargs rate ge 1.4
fi

if row "5 MB"; then
	tool crew 40 in.40 "meter crew -j2 -n0 head -c 5000000 /dev/zero | cat >/dev/null"
	tool floor 40 empty "meter floor 2 40 /usr/bin/head -c 5000000 /dev/zero | cat >/dev/null"
	have rush && tool rush 40 in.40 "meter rush -j2 'head -c 5000000 /dev/zero' | cat >/dev/null"
	have parallel && tool parallel 8 in.8 "meter parallel -j2 -n0 head -c 5000000 /dev/zero | cat >/dev/null"
	measure "5 MB" "$ROUNDS"
	line "5 MB a task" crew floor rate ge 0.85
	line "5 MB a task" crew rush rate ge 2.5
	line "5 MB a task" crew parallel rate ge 2.5
	row x || true
	tool crew 8 in.8 "meter crew -j8 -n0 head -c 5000000 /dev/zero | cat >/dev/null"
	measure "8 x 5 MB" "$ROUNDS"
	limit "5 MB a task, 8 at once" crew memory 16
fi

if row "keep-order"; then
	tool kept "$many" "in.$many" "meter crew -j2 -k ./gate none 0 10"
	tool free "$many" "in.$many" "meter crew -j2 ./gate none 0 10"
	measure "keep-order" "$ROUNDS"
	line "-k against unordered" kept free rate ge 0.95
fi

if row "tagged lines"; then
	tool crew 8 in.8 "meter crew -j2 --output line --tag -n0 seq $LINES"
	have parallel && tool parallel 8 in.8 "meter parallel -j2 --lb --tag -n0 seq $LINES"
	measure "tagged lines" "$((ROUNDS / 2 + 1))"
	line "--output line --tag" crew parallel rate ge 2
fi

if row "one task"; then
	echo a >one
	tool crew 1 one "cat | meter crew true"
	tool xargs 1 one "cat | meter xargs true"
	measure "one task" "$((20 * ROUNDS))"
	line "one task, seconds" crew xargs wall le 1.6
fi

if row "records"; then
	seq "$RECORDS" >records
	tool crew "$RECORDS" records "meter crew -n1000 true"
	tool xargs "$RECORDS" records "meter xargs -d '\n' -n1000 true"
	measure "records" "$((ROUNDS / 2 + 1))"
	line "-n1000 true, records/s" crew xargs rate ge 2
	limit "-n1000 true" crew memory 16
	rm records
fi

if row "blocks"; then
	yes 'a line of text that is about fifty bytes long, ok' | head -c "$BYTES" >big
	head -c $((BYTES / 8)) big >eighth
	for size in 1 10; do
		tools=() commands=() inputs=() amounts=()
		tool stream "$BYTES" big "cat | meter crew -j2 --pipe --block ${size}M 'cat >/dev/null'"
		tool file "$BYTES" big "meter crew -j2 --pipe --block ${size}M -a big 'cat >/dev/null'"
		if have parallel; then
			tool theirs $((BYTES / 8)) eighth "cat | meter parallel -j2 --pipe --block ${size}M 'cat >/dev/null'"
			tool part $((BYTES / 8)) eighth "meter parallel -j2 --pipepart --block ${size}M -a eighth 'cat >/dev/null'"
		fi
		measure "blocks of $size MiB" "$((ROUNDS / 2 + 1))"
		line "--pipe --block ${size}M, bytes/s" stream theirs rate ge 5
		line "--pipe --block ${size}M -a, bytes/s" file part rate ge 1
		limit "--pipe --block ${size}M" stream memory $((16 + 8 * size))
	done
	rm big eighth
fi

if row "held back"; then
	rm -f fifo
	mkfifo fifo
	seq "$HELD" >in.held
	tool kept "$HELD" in.held "meter crew -j2 -k ./gate fifo $HELD 10"
	tool free "$HELD" in.held "meter crew -j2 ./gate fifo $HELD 10"
	measure "held back" "$((ROUNDS / 2 + 1))"
	line "-k behind one slow task" kept free rate ge 0.95
	limit "-k behind one slow task" kept memory 32
	row x || true
	tool kept 500 in.500 "meter crew -j2 -k ./gate fifo 500 1000000"
	measure "held back, 1 MB" "$ROUNDS"
	limit "-k, 500 x 1 MB behind one" kept memory 32
fi

if row "sleepers"; then
	tool crew 1000 in.1000 "meter crew -j1000 -n0 sleep 2"
	tool xargs 1000 in.1000 "meter xargs -P1000 -I{} sleep 2"
	measure "sleepers" "$((ROUNDS / 2 + 1))"
	line "-j1000 sleepers, seconds" crew xargs wall le 1.05
	limit "-j1000 sleepers" crew memory 80
fi

if row "up to date"; then
	mkdir -p up-in up-out
	seq -f 'up-in/%.0f.c' "$many" >up.list
	xargs touch <up.list
	sed 's,-in/\(.*\)c$,-out/\1o,' up.list | xargs touch
	tool crew "$many" up.list "meter crew -q --makes 'up-out/{/.}.o' cp {} {out}"
	tool journal "$many" up.list "meter crew -q --state up.state --makes 'up-out/{/.}.o' cp {} {out}"
	tool stats "$many" up.list "meter ./stats"
	measure "up to date" 1
	measure "up to date" "$ROUNDS"
	line "up to date" crew stats rate ge 0.36
	line "up to date, with --state" journal stats rate ge 0.36
fi

if row "made files"; then
	mkdir -p made
	tool crew "$few" "in.$few" "meter crew -j2 -q --always-make --makes made/{} 'echo {} > {out}'"
	tool shell "$few" "in.$few" "meter crew -j2 -q 'echo {} > made/{}.tmp && mv made/{}.tmp made/{}'"
	measure "made files" "$ROUNDS"
	line "made files (without a sync)" crew shell rate ge 1
fi
