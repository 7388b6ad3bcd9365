#!/bin/bash
# workers.sh measures persistent workers against a process for each record, GNU
# parallel (where it is on PATH) and a floor in C, interleaved, and prints the medians
# of records a second and their ratios.
#
#   CREW=PATH    the crew to measure; built from this checkout where it is unset
#   ROUNDS=N     runs of each tool (5)
#   RECORDS=N    records of 20 bytes for workers (2000000); slow tools take fewer
#   FEW=N        records for a process each (4000)
#   ONLY=REGEX   the tools whose names match
#   QUICK=1      a short form: small numbers, 3 rounds
#   DIR=PATH     where to build and measure; removed at the end where it is unset
#
# A ratio is the median of the ratios of the rounds: what disturbs the machine disturbs
# both. Before it measures a tool, it checks that all records come out of it.
set -u
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${QUICK:-}" ]; then
	: "${ROUNDS:=3}" "${RECORDS:=200000}" "${FEW:=500}"
fi
ROUNDS=${ROUNDS:-5} RECORDS=${RECORDS:-2000000} FEW=${FEW:-4000} ONLY=${ONLY:-.}
if [ -z "${DIR:-}" ]; then
	DIR=$(mktemp -d)
	trap 'rm -rf "$DIR"' EXIT
fi
mkdir -p "$DIR"
for name in workers meter; do
	gcc -O2 -static -pthread -o "$DIR/$name" "$here/$name.c" || exit
done
if [ -z "${CREW:-}" ]; then
	CREW=$DIR/crew
	(cd "$here/../.." && CGO_ENABLED=0 go build -tags urfave_cli_no_docs -o "$CREW" .) || exit
fi
CREW=$(readlink -f "$CREW")
ln -sf "$CREW" "$DIR/crew"
PATH=$DIR:$PATH
cd "$DIR" || exit

# A worker as people write them: its imports take far longer than a record.
cat >imports.py <<'END'
import argparse, asyncio, csv, decimal, email, http.client, json, logging, sqlite3, ssl, sys, urllib.request, xml.dom.minidom
for line in sys.stdin:
    print(line, end="", flush=True)
END
python=$(python3 -c 'import sys; print(sys.executable)') # not a wrapper that costs more than the imports

tools=() amounts=() commands=()

# tool NAME RECORDS COMMAND... adds a tool if ONLY wants it. It copies stdin to stdout, in
# any order.
tool() {
	[[ $1 =~ $ONLY ]] || return
	tools+=("$1") amounts+=("$2")
	shift 2
	commands+=("$*")
}

# run TOOL runs one, with its records on stdin.
run() { bash -c "meter '${tools[$1]}.runs' ${commands[$1]}" <"in.${amounts[$1]}" 2>err; }

median() { sort -g | awk '{v[NR]=$1} END {print NR%2 ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }

# rates TOOL are its records a second, a line a round.
rates() { awk -v n="${amounts[$1]}" '{print n/$1}' "${tools[$1]}.runs"; }

index() {
	local i
	for i in "${!tools[@]}"; do [ "${tools[i]}" = "$1" ] && { echo "$i"; return; }; done
}

# ratio NAME PEER [TARGET] prints how many times as fast NAME is, and whether that is enough.
ratio() {
	local a b r
	a=$(index "$1") b=$(index "$2")
	[ -n "$a" ] && [ -n "$b" ] || return
	r=$(paste <(rates "$a") <(rates "$b") | awk '{print $1/$2}' | median)
	printf '%-24s / %-24s %10.4g' "$1" "$2" "$r"
	[ -n "${3:-}" ] && awk -v r="$r" -v t="$3" 'BEGIN {printf "  >= %-8g %s", t, r >= t ? "yes" : "no"}'
	echo
}

tool window-1 "$RECORDS" crew -j2 --worker cat --worker-window 1
tool window-64 "$RECORDS" crew -j2 --worker cat --worker-window 64
tool window-64-kept "$RECORDS" crew -j2 -k --worker cat --worker-window 64
tool floor-1 "$RECORDS" workers 2 1 cat
tool floor-64 "$RECORDS" workers 2 64 cat
tool process "$FEW" crew -j2 --stdin cat
if command -v parallel >/dev/null; then
	parallel --citation </dev/null >/dev/null 2>&1
	tool parallel "$FEW" parallel --pipe -N1 --round-robin -j2 cat
fi
tool python-1 $((FEW * 10)) crew -j2 --worker "'$python imports.py'"
tool python-64 $((FEW * 10)) crew -j2 --worker "'$python imports.py'" --worker-window 64
tool python-process $((FEW / 40 + 2)) crew -j2 --stdin "$python" imports.py

cat <<END
$(date -u +%FT%TZ)  $(uname -sr), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $ROUNDS rounds
$("$CREW" --version | head -n 1); $(command -v parallel >/dev/null && parallel --version | head -n 1); $("$python" --version)

END
for i in "${!tools[@]}"; do
	in=in.${amounts[i]}
	[ -e "$in" ] || seq -f 'record-%012.0f' "${amounts[i]}" >"$in"
	run "$i" >out || { echo "${tools[i]}: $(tail -n 1 err)" >&2; exit 1; }
	sort out | cmp -s - "$in" || { echo "${tools[i]}: the records that come out are others than went in" >&2; exit 1; }
	: >"${tools[i]}.runs"
done
n=${#tools[@]}
for ((round = 0; round < ROUNDS; round++)); do
	for ((k = 0; k < n; k++)); do
		i=$(((round + k) % n))
		run "$i" >/dev/null || echo "${tools[i]}: $(tail -n 1 err)" >&2
	done
done
printf '%-24s %12s %10s %12s\n' "" records records/s "us of cpu"
for i in "${!tools[@]}"; do
	printf '%-24s %12d %10.0f %12.3g\n' "${tools[i]}" "${amounts[i]}" "$(rates "$i" | median)" \
		"$(awk -v n="${amounts[i]}" '{print $3/n*1e6}' "${tools[i]}.runs" | median)"
done
echo
ratio window-1 floor-1 0.4
ratio window-64 floor-64
ratio window-64 window-1
ratio window-64-kept window-64 0.95
ratio window-1 process 100
ratio window-1 parallel
ratio window-64 parallel
ratio python-1 python-process
ratio python-64 python-process
