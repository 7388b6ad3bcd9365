package engine

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/front/wiring"
)

// TestChaos runs a submitter, three workers, and one server or a cluster of three as processes, and
// disturbs them at random moments. Nothing may be lost, every result is shown once and in order, no
// task runs twice at the same time, and only tasks that a fault has interrupted run again. In every
// second round persistent workers run the tasks, and in half of the rounds the run is detached.
// TestModel covers faults of the network.
func TestChaos(t *testing.T) {
	crewtest.SoakOnly(t)
	for i := range crewtest.Rounds(0) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { newChaos(t, i).round() })
	}
}

const (
	chaosTasks  = 400
	chaosKeys   = 40
	chaosSlots  = 4
	chaosAtOnce = 2 * chaosSlots // most attempts that a worker is running, or has ended but not reported
)

// chaosTask logs its steps. A lock shows whether another task of its key, or another attempt at it, is
// still running. Its last step is the line of output, after which a persistent worker has answered: the next
// task of the key may begin elsewhere before the process has ended.
const chaosTask = `exec 9>>"$2/lock.$CREW_KEY"
flock -n 9 || echo "overlap $1 $CREW_ATTEMPT" >> "$2/log"
echo "begin $1 $CREW_ATTEMPT $CREW_HOST" >> "$2/log"
printf 'this is the '
sleep 0.$(($1 % 8 / 7))$(($1 * 7 % 10)) # some long enough for the output to come in parts
echo "end $1 $CREW_ATTEMPT" >> "$2/log"
exec 9>&-
echo "output of $1"
`

// chaosLoop is a persistent worker that does the same.
const chaosLoop = `while read -r id CREW_KEY; do
	export CREW_KEY
	CREW_ATTEMPT=0 sh "$1/task" "$id" "$1"
done
`

// asNode, in the environment of a test binary, makes it a server. Its words are a directory, the
// server's name and port and, in a cluster, its cluster port and the cluster ports of all servers.
const asNode = "CREW_TEST_NODE"

// serveNode runs a server until the process is killed.
func serveNode(words []string) error {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	o := &server.Options{ServerName: words[1], Host: "127.0.0.1", Port: number(words[2]), NoSigs: true, NoLog: true}
	if len(words) > 3 {
		o.Cluster = server.ClusterOpts{Name: "crew", Host: "127.0.0.1", Port: number(words[3])}
		for _, port := range words[4:] {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + port})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(startWait) {
		return fmt.Errorf("%s does not start", words[1])
	}
	fmt.Println("nats://127.0.0.1:" + words[2])
	select {}
}

// chaos is one round of TestChaos.
type chaos struct {
	t       *testing.T
	dir     string
	rand    *rand.Rand
	words   []string // the command
	engine  string   // URLs of all servers
	nodes   []string // words of each server; see asNode
	servers []*crewtest.Process
	workers [3]*crewtest.Process
	sub     *crewtest.Process
	handed  bool // sub shows the results of a detached run
	killed  bool // an earlier submitter was killed
	mayRun  int  // how many attempts may have run again
}

func newChaos(t *testing.T, round int) *chaos {
	c := &chaos{t: t, dir: t.TempDir(), rand: crewtest.Rand(t, round)}
	for name, text := range map[string]string{"task": chaosTask, "loop": chaosLoop} {
		crewtest.WriteFile(t, filepath.Join(c.dir, name), text, 0o666)
	}
	if c.words = []string{"sh", c.dir + "/task", "{1}", c.dir}; round%2 == 1 {
		c.words = []string{"--worker", "sh " + c.dir + "/loop " + c.dir}
	}
	if c.handed = round%4 >= 2; c.handed {
		c.engine, c.nodes, c.servers = c.dir+"/hub/admin.json", []string{steadyPort()}, make([]*crewtest.Process, 1)
		c.startServer(0)
	} else {
		c.serve([]int{1, 1, 3}[round%3])
	}
	for i := range c.workers {
		c.startWorker(i)
	}
	c.submit()
	return c
}

// serve starts one server or three.
func (c *chaos) serve(n int) {
	routes := make([]string, n)
	for i := range routes {
		routes[i] = steadyPort()
	}
	for i := range n {
		port := steadyPort()
		words := fmt.Sprintf("%s/hub%d n%d %s", c.dir, i, i, port)
		if n > 1 {
			words += " " + routes[i] + " " + strings.Join(routes, " ")
		}
		c.nodes, c.servers = append(c.nodes, words), append(c.servers, nil)
		c.engine = strings.TrimPrefix(c.engine+",nats://127.0.0.1:"+port, ",")
		c.startServer(i)
	}
	crewtest.Until(c.t, func() bool { return c.start("engine", "status").Wait() == 0 }, "the servers")
}

func (c *chaos) startServer(i int) {
	if c.handed {
		c.servers[i] = c.start("engine", "serve", "--dir", c.dir+"/hub", "--listen", "127.0.0.1:"+c.nodes[i])
		c.servers[i].Says(c.servers[i].Stderr, "connect with")
		return
	}
	c.servers[i] = start(c.t, []string{asNode + "=" + c.nodes[i]})
	c.servers[i].Says(c.servers[i].Stdout, "nats://")
}

// start starts crew.
func (c *chaos) start(args ...string) *crewtest.Process {
	cmd := exec.Command(os.Args[0], append([]string{"--protocol", strconv.Itoa(wiring.EngineProtocol)}, args...)...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "NATS_URL="+c.engine)
	if args[0] != "engine" {
		cmd.Env = append(cmd.Env, "CREW_OPTS=--engine "+c.engine)
	}
	return crewtest.New(c.t, cmd).Start()
}

func (c *chaos) startWorker(i int) {
	args := []string{"worker", "-j", strconv.Itoa(chaosSlots), "--name", "host" + strconv.Itoa(i), "--worker-ttl", "2s"}
	c.workers[i] = c.start(append(args, c.words...)...)
}

// submit starts the submitter, and waits until tasks have begun or it has ended: it exits if there is
// no hub when it starts.
func (c *chaos) submit(more ...string) {
	logged := func() int64 {
		info, err := os.Stat(c.dir + "/log")
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := logged()
	args := []string{"--sched", "keyed", "-C", " ", "--key", "{2}"}
	if c.handed {
		args = append(args, "--detach", "--name", "run")
	} else {
		args = append(append(args, more...), "-k", "--state", c.dir+"/state", "--no-control")
	}
	args = append(append(args, c.words...), ":::")
	for i := range chaosTasks {
		args = append(args, fmt.Sprintf("%d %d", i, i%chaosKeys))
	}
	if c.sub = c.start(args...); c.handed {
		c.sub.Exits(0)
		c.sub = c.start("engine", "attach", "--engine", c.engine, "run")
	}
	crewtest.Until(c.t, func() bool { return logged() > before || c.sub.Ended() }, "tasks to begin")
}

// round disturbs the tasks three times, and then checks the results.
func (c *chaos) round() {
	for range 3 {
		time.Sleep(time.Duration(100+c.rand.IntN(900)) * time.Millisecond)
		if !c.sub.Ended() {
			c.fault()
		}
	}
	// Elections, each of up to 9s, can follow one another.
	for end := time.Now().Add(3 * crewtest.Patience); !c.sub.Ended() && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	c.sub.Exits(0)
	if !c.killed || c.sub.Stdout() != "" {
		c.account()
	}
}

func (c *chaos) fault() {
	i, s := c.rand.IntN(3), c.rand.IntN(len(c.servers))
	pause := time.Duration(500+c.rand.IntN(4000)) * time.Millisecond
	what := []string{"kill worker", "kill all workers", "stop worker", "kill server", "stop server", "kill the submitter", "drain worker"}[c.rand.IntN(7)]
	c.t.Log(what, i, s)
	c.mayRun += 3 * chaosAtOnce // leases run out if there is no leader for too long
	switch what {
	case "kill worker", "kill all workers":
		for k := range c.workers {
			if k == i || what == "kill all workers" {
				c.workers[k].Kill()
				c.startWorker(k)
			}
		}
	case "stop worker":
		c.stop(c.workers[i], pause)
	case "kill server":
		c.servers[s].Kill()
		c.startServer(s)
	case "stop server":
		c.stop(c.servers[s], pause)
	case "kill the submitter":
		if c.handed {
			for _, pid := range c.children(c.servers[0]) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		c.killed = true
		c.sub.Kill()
		c.submit("--replay")
	case "drain worker":
		c.workers[i].Send(syscall.SIGINT)
		c.workers[i].Wait()
		c.startWorker(i)
	}
}

// children returns the child processes of p.
func (c *chaos) children(p *crewtest.Process) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Cmd.Process.Pid))
	for _, path := range lists {
		text, _ := os.ReadFile(path)
		for f := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(f)
			pids = append(pids, pid)
		}
	}
	return pids
}

// stop stops a process for some time.
func (c *chaos) stop(p *crewtest.Process, pause time.Duration) {
	p.Send(syscall.SIGSTOP)
	time.Sleep(pause)
	p.Send(syscall.SIGCONT)
}

// account checks the log of the tasks.
func (c *chaos) account() {
	var want strings.Builder
	for i := range chaosTasks {
		fmt.Fprintf(&want, "this is the output of %d\n", i)
	}
	require.Equal(c.t, want.String(), c.sub.Stdout())
	log := crewtest.ReadFile(c.t, filepath.Join(c.dir, "log"))
	again, begun, ended, latest := 0, map[string]int{}, map[string]int{}, map[int]int{}
	for l := range strings.Lines(log) {
		f := strings.Fields(l)
		switch f[0] {
		case "overlap":
			require.Fail(c.t, "two attempts at once", l)
		case "begin":
			begun[f[1]]++
			n, err := strconv.Atoi(f[1])
			require.NoError(c.t, err)
			require.GreaterOrEqual(c.t, n, latest[n%chaosKeys], "key %d goes back", n%chaosKeys)
			latest[n%chaosKeys] = n
		case "end":
			ended[f[1]]++
		}
	}
	for i := range chaosTasks {
		id := strconv.Itoa(i)
		require.Positive(c.t, ended[id], id)
		again += begun[id] - 1
	}
	// A lease may run out without a fault if the machine stalls, or a cluster has no leader.
	lapses := strings.Count(c.sub.Stderr(), " is lost: ")
	for _, w := range c.workers {
		if w != nil {
			lapses += strings.Count(w.Stderr(), "has lost its lease")
		}
	}
	require.LessOrEqual(c.t, again, c.mayRun+lapses*chaosAtOnce)
}
