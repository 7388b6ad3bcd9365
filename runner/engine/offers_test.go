package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// holder is a command that writes down when it has which units, for as long as its value says in
// hundredths of a second: in a file of its own, so that nothing that is killed is half written.
const holder = `at() { read -r now _ < /proc/uptime; echo "$1 $now $CREW_HOST ${CREW_GPU:--} ${CREW_MEM:--}" >> "$0/$$.$CREW_SEQ"; }; ` +
	`at +; sleep 0.0"$1"; at -; echo "$CREW_HOST {gpu}"`

// offered is a line of --json.
type offered struct {
	Task            uint64
	Exit            int
	Stdout, Command string
	Units           []string
}

// offersTo returns what shows the results of a run that starts, and reads these.
func offersTo(t *testing.T, url string, detached bool, args ...string) (p *crewtest.Process, read func() map[uint64]offered) {
	t.Helper()
	if !detached {
		p = crew(t, append([]string{"--engine", url, "--json"}, args...)...)
	} else {
		hands := crew(t, append([]string{"--engine", url, "--detach"}, args...)...)
		hands.Exits(0)
		p = crew(t, "engine", "attach", "--engine", url, "--json", strings.TrimSpace(hands.Stdout()))
	}
	return p, func() map[uint64]offered {
		p.Exits(0)
		all := map[uint64]offered{}
		for line := range strings.Lines(p.Stdout()) {
			var r offered
			require.NoError(t, json.Unmarshal([]byte(line), &r), line)
			all[r.Task] = r
		}
		return all
	}
}

// holding is one task's record of what it had.
type holding struct {
	begin, end float64 // uptime, rounded down to hundredths
	host       string
	units      []string // gpu/0, mem/3
}

// holdings reads the records that holders have left.
func holdings(t *testing.T, dir string) (all []holding) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, name := range files {
		f := strings.Fields(read(t, name))
		require.Len(t, f, 10, name)
		h := holding{host: f[2]}
		h.begin, err = strconv.ParseFloat(f[1], 64)
		require.NoError(t, err)
		h.end, err = strconv.ParseFloat(f[6], 64)
		require.NoError(t, err)
		for i, list := range f[3:5] {
			if list != "-" {
				for u := range strings.SplitSeq(list, ",") {
					h.units = append(h.units, []string{"gpu", "mem"}[i]+"/"+u)
				}
			}
		}
		all = append(all, h)
	}
	return all
}

// apart checks that no unit of a host was had by two tasks at once, and returns the units seen.
func apart(t *testing.T, all []holding) (seen []string) {
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.begin, b.begin) })
	until := map[string]float64{}
	for _, h := range all {
		for _, u := range h.units {
			unit := h.host + "/" + u
			require.LessOrEqual(t, until[unit], h.begin, "%s is had twice", unit)
			if until[unit] == 0 {
				seen = append(seen, unit)
			}
			until[unit] = h.end
		}
	}
	slices.Sort(seen)
	return seen
}

// Two runs share two workers that offer different things, which no two tasks have at once.
func TestOffersOfTwoWorkersToTwoRuns(t *testing.T) {
	both(t, func(t *testing.T, detached bool) {
		url, dir := startHub(t), t.TempDir()
		command := []string{"sh", "-c", holder, dir, "{}"}
		for name, offers := range map[string]string{"a": "gpu:x,y,mem=4", "b": "mem=6"} {
			w := crew(t, append([]string{"worker", "--engine", url, "-j4", "--name", name, "--offers", offers, "--"}, command...)...)
			w.Says(w.Stderr, "is ready")
		}
		if detached {
			crew(t, "engine", "dispatch", "--engine", url)
		}
		var runs []func() map[uint64]offered
		for range 2 {
			for _, needs := range []string{"gpu,mem:2", "mem:{1}"} {
				args := []string{"--needs", needs, "--"}
				args = append(append(args, command...), ":::")
				for i := range 20 {
					args = append(args, fmt.Sprint(1+i%5))
				}
				_, results := offersTo(t, url, detached, args...)
				runs = append(runs, results)
			}
		}
		for i, results := range runs {
			all := results()
			require.Len(t, all, 20)
			for _, r := range all {
				if i%2 == 0 { // {gpu} is what it had
					require.Regexp(t, `^a [xy]\n$`, r.Stdout)
					continue
				}
				require.Regexp(t, `^[ab] {gpu}\n$`, r.Stdout)
			}
		}
		all := holdings(t, dir)
		require.Len(t, all, 80)
		require.Subset(t, []string{"a/gpu/x", "a/gpu/y", "a/mem/0", "a/mem/1", "a/mem/2", "a/mem/3", "b/mem/0", "b/mem/1", "b/mem/2", "b/mem/3", "b/mem/4", "b/mem/5"}, apart(t, all))
	})
}

// A signed command has the units that its worker has given out, in braces, in a script and in the
// report of the task.
func TestOffersToSignedCommands(t *testing.T) {
	url := startHub(t)
	file, key := keyFile(t)
	w := crew(t, "worker", "--engine", url, "-j2", "--allow-commands", "--trust", key.Line(), "--offers", "gpu:x-1")
	w.Says(w.Stderr, "is ready")
	for _, command := range [][]string{
		{"sh", "-c", `echo "$1.$2.$CREW_GPU.$CREW_DB"`, "sh", "{%}{gpu}-{gpu}{%}", "{db}{}"},
		{`echo {%}{gpu}-{gpu}{%}.{db}{}."$CREW_GPU.$CREW_DB"`},
	} {
		args := append([]string{"--sign", file, "--cap", "db:d", "--needs", "gpu,db", "--"}, command...)
		_, results := offersTo(t, url, false, append(args, ":::", "{gpu}", "b")...)
		all := results()
		require.Len(t, all, 2)
		for _, r := range all {
			require.Regexp(t, `^[12]x-1-x-1[12]\.d({gpu}|b)\.x-1\.d\n$`, r.Stdout)
			require.Equal(t, []string{"db:d", "gpu:x-1"}, r.Units)
			require.NotContains(t, r.Command, "{gpu}-")
		}
	}
}

// What no worker offers is said once; other tasks go on, and those that need it once a worker has it.
// It waits at a worker for another run's, whose slot runs others meanwhile.
func TestLackingOffers(t *testing.T) {
	url, dir := startHub(t), t.TempDir()
	obey := obeys(t)
	worker := func(name string, more ...string) {
		w := crew(t, append(append([]string{"worker", "--engine", url, "-j2", "--name", name}, more...), obey, "{1}")...)
		w.Says(w.Stderr, "is ready")
	}
	worker("a")
	run, results := offersTo(t, url, false, "--needs", "{2}", "--colsep", ",", obey, "{1}", ":::",
		"echo $CREW_HOST$CREW_GPU,gpu:2", "touch "+dir+"/other,", "echo $CREW_HOST$CREW_GPU,gpu:2")
	run.Says(run.Stderr, "crew: no worker of queue default offers gpu:2: 2 tasks wait for one")
	crewtest.Exists(t, dir+"/other")
	worker("b", "--offers", "gpu:p,q")
	all := results()
	require.Equal(t, "bp,q\n", all[1].Stdout)
	require.Equal(t, "bp,q\n", all[3].Stdout)
	require.Equal(t, 1, strings.Count(run.Stderr(), "offers"), run.Stderr())
}

// A task that waits at its worker for what another run has takes no slot there.
func TestOffersTakenByAnotherRun(t *testing.T) {
	url, dir := startHub(t), t.TempDir()
	obey := obeys(t)
	w := crew(t, "worker", "--engine", url, "-j2", "--offers", "gpu=1", obey, "{1}")
	w.Says(w.Stderr, "is ready")
	first, _ := offersTo(t, url, false, "--needs", "gpu", obey, "{1}", ":::", "touch "+dir+"/has; while [ ! -e "+dir+"/go ]; do sleep 0.01; done")
	crewtest.Exists(t, dir+"/has")
	_, second := offersTo(t, url, false, "--needs", "{2}", "--colsep", ",", obey, "{1}", ":::", "ls "+dir+",gpu", "touch "+dir+"/other,")
	crewtest.Exists(t, dir+"/other")
	touch(t, dir+"/go")
	require.Equal(t, "go\nhas\nother\n", second()[1].Stdout)
	first.Exits(0)
}
