package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

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
