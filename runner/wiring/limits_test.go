package wiring

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// holdWork notes in a log what a task holds, and then that it has ended.
const holdWork = `printf 'S %s %s %s %s gpu=%s db=%s\n' "$(date +%s%N)" "$1" "$2" "$3" "$4" "$5" >> log
[ $(($1 % 16)) -ne 0 ] || sleep 0.01
printf 'E %s\n' "$1" >> log
`

// What tasks hold at once is counted from outside: a task notes what it holds after it has
// begun and before it ends, so all that the log shows together was held together.
func TestNeverOver(t *testing.T) {
	crewtest.Soak(t)
	t.Parallel()
	const n = 20_000
	for round, resizes := range []bool{false, true} {
		rand := crewtest.Rand(t, round)
		const places = 8
		heaviest := 12
		if resizes {
			heaviest = 3
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "work"), []byte(holdWork), 0o666))
		var input strings.Builder
		for id := range n {
			weight, needs := 1, ""
			if rand.IntN(4) == 0 {
				weight = 1 + rand.IntN(heaviest)
			}
			if rand.IntN(2) == 0 {
				needs = []string{"gpu", "gpu:2", "db", "db:2,gpu", "db:3", "gpu:3,db"}[rand.IntN(6)]
			}
			fmt.Fprintf(&input, "%d\t%d\tk%d\t%s\n", id+1, weight, rand.IntN(6), needs)
		}
		cmd := crew("-j8", "-C", `\t`, "--weight", "{2}", "--key", "{3}", "--per-key", "3", "--needs", "{4}", "--cap", "gpu:a,b,c", "--cap", "db=3",
			"--rate", "500/s,burst=20", "--priority", "{2}", "--name", "held", "--", "sh", "work", "{1}", "{2}", "{3}", "{gpu}", "{db}")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input.String())
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+crewtest.ShortDir(t))
		p := crewtest.New(t, cmd)
		began := time.Now()
		p.Start()
		for resizes && !p.Ended() {
			ctl := crew("ctl", "resize", "held", strconv.Itoa(3+rand.IntN(6)))
			ctl.Env = cmd.Env
			_ = ctl.Run() // the run may not have begun, or be over
		}
		size := func() (n int64) {
			if st, err := os.Stat(filepath.Join(dir, "log")); err == nil {
				n = st.Size()
			}
			return n
		}
		for !p.Ended() { // it may take as long as it goes on
			before := size()
			crewtest.Until(t, func() bool { return p.Ended() || size() > before }, "another task")
		}
		p.Exits(0)
		held := readHeld(t, filepath.Join(dir, "log"))
		require.Len(t, held.starts, n)
		slices.Sort(held.starts)
		for i, at := range held.starts {
			require.GreaterOrEqual(t, time.Duration(at-began.UnixNano()), time.Duration(i-19)*2*time.Millisecond, "the rate is passed")
		}
		require.LessOrEqual(t, held.places, places)
		t.Logf("at most %d places, %d units, %d of a key at once", held.places, held.units, held.key)
	}
}

// heldAtOnce is the most that a log shows of what was held at once.
type heldAtOnce struct {
	places, key, units int
	starts             []int64
}

func readHeld(t *testing.T, path string) (most heldAtOnce) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	places, keys, units, of := 0, map[string]int{}, map[string]string{}, map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		id := w[1]
		if w[0] == "S" {
			at, err := strconv.ParseInt(w[1], 10, 64)
			require.NoError(t, err)
			most.starts = append(most.starts, at)
			w = w[1:]
			id = w[1]
			of[id] = w
		}
		by := 1
		if w[0] == "E" {
			w, by = of[id], -1
		}
		weight, _ := strconv.Atoi(w[2])
		places += by * min(weight, 8)
		keys[w[3]] += by
		most.places, most.key = max(most.places, places), max(most.key, keys[w[3]])
		for _, held := range w[4:] {
			name, list, _ := strings.Cut(held, "=")
			for unit := range strings.SplitSeq(list, ",") {
				switch unit = name + unit; {
				case unit == name:
				case by < 0:
					delete(units, unit)
				default:
					require.Empty(t, units[unit], "two tasks hold one unit")
					units[unit] = id
					most.units = max(most.units, len(units))
				}
			}
		}
	}
	require.LessOrEqual(t, most.key, 3)
	return most
}
