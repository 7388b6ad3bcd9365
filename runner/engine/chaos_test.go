package engine

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/wiring"
)

// TestChaos runs a submitter, a broker and three workers as processes, with the broker
// behind a proxy, and does something to them at random moments. Nothing may be lost, every result is
// shown once and in order, no task runs twice at the same time, and only what ran at a
// fault runs again. In each second round persistent workers run the tasks, and in two of
// four the run is handed over to a dispatcher.
func TestChaos(t *testing.T) {
	crewtest.Soak(t)
	for i := range crewtest.Rounds(0) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { newChaos(t, i).round() })
	}
}

const (
	chaosTasks  = 400
	chaosKeys   = 40
	chaosSlots  = 4
	chaosAtOnce = 2 * chaosSlots // that a worker runs, or has run and not told of yet
)

// chaosTask logs what it does. A lock tells whether another task of its key, or another
// attempt at it, still runs.
const chaosTask = `exec 9>>"$2/lock.$CREW_KEY"
flock -n 9 || echo "overlap $1 $CREW_ATTEMPT" >> "$2/log"
echo "begin $1 $CREW_ATTEMPT $CREW_HOST" >> "$2/log"
printf 'this is the '
sleep 0.$(($1 % 8 / 7))$(($1 * 7 % 10)) # some long enough for the output to come in parts
echo "output of $1"
echo "end $1 $CREW_ATTEMPT" >> "$2/log"
`

// chaosLoop is a persistent worker that does the same.
const chaosLoop = `while read -r id CREW_KEY; do
	export CREW_KEY
	CREW_ATTEMPT=0 sh "$1/task" "$id" "$1"
done
`

// chaos is one round.
type chaos struct {
	t          *testing.T
	dir        string
	rand       *rand.Rand
	words      []string // the command
	engine     string   // its URL
	port       string   // of the broker
	proxy      *proxy   // nil without one
	broker     *crewtest.Process
	workers    [3]*crewtest.Process
	sub        *crewtest.Process
	run        string // of a round in which it is handed over; sub shows its results then
	handed     bool   // this is such a round
	dispatcher *crewtest.Process
	killed     bool // an earlier submitter was
	mayRun     int  // how many attempts may have been run again
}

func newChaos(t *testing.T, round int) *chaos {
	c := chaosAt(t, round)
	c.startBroker()
	c.proxy = newProxy(t, "127.0.0.1:"+c.port)
	c.engine = "nats://" + c.proxy.listener.Addr().String()
	for i := range c.workers {
		c.startWorker(i)
	}
	if c.handed = round%4 >= 2; c.handed {
		c.dispatch()
	}
	c.submit()
	return c
}

// chaosAt prepares a round without an engine.
func chaosAt(t *testing.T, round int) *chaos {
	c := &chaos{t: t, dir: t.TempDir(), rand: crewtest.Rand(t, round)}
	for name, text := range map[string]string{"task": chaosTask, "loop": chaosLoop} {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o666))
	}
	if c.words = []string{"sh", c.dir + "/task", "{1}", c.dir}; round%2 == 1 {
		c.words = []string{"--worker", "sh " + c.dir + "/loop " + c.dir}
	}
	return c
}

func (c *chaos) dispatch() { c.dispatcher = c.start("engine", "dispatch") }

func (c *chaos) startBroker() {
	var url string
	c.broker, url = startHubProcess(c.t, c.dir+"/hub", c.port)
	c.port = url[strings.LastIndexByte(url, ':')+1:]
}

// start starts crew, once it can connect.
func (c *chaos) start(args ...string) *crewtest.Process {
	if c.proxy != nil {
		c.proxy.wait()
	}
	cmd := exec.Command(os.Args[0], append([]string{"--protocol", strconv.Itoa(wiring.EngineProtocol)}, args...)...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "CREW_OPTS=--engine "+c.engine, "NATS_URL="+c.engine)
	return crewtest.New(c.t, cmd).Start()
}

func (c *chaos) startWorker(i int) {
	args := []string{"worker", "-j", strconv.Itoa(chaosSlots), "--name", "host" + strconv.Itoa(i), "--worker-ttl", "2s"}
	c.workers[i] = c.start(append(args, c.words...)...)
}

// submit starts the submitter, and waits until it has had tasks begun or has ended: it
// gives up if the engine is away when it starts.
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
		args = append(args, "--detach")
	} else {
		args = append(append(args, more...), "-k", "--state", c.dir+"/state", "--no-control")
	}
	args = append(append(args, c.words...), ":::")
	for i := range chaosTasks {
		args = append(args, fmt.Sprintf("%d %d", i, i%chaosKeys))
	}
	c.sub = c.start(args...)
	if c.handed {
		c.sub.Exits(0)
		c.run = strings.TrimSpace(c.sub.Stdout())
		c.attach()
	}
	crewtest.Until(c.t, func() bool { return logged() > before || c.sub.Ended() }, "tasks to begin")
}

// attach shows the run that was handed over.
func (c *chaos) attach() { c.sub = c.start("engine", "attach", c.run) }

// round disturbs the tasks three times, and checks what has become of them. It returns
// how many attempts ran again.
func (c *chaos) round() int {
	for range 3 {
		time.Sleep(time.Duration(100+c.rand.IntN(900)) * time.Millisecond)
		if !c.sub.Ended() {
			c.fault()
		}
	}
	c.sub.Exits(0)
	if c.killed && c.sub.Stdout() == "" {
		return 0
	}
	return c.account()
}

func (c *chaos) fault() {
	i := c.rand.IntN(3)
	what := []string{
		"kill worker", "kill all workers", "stop worker", "kill the broker", "kill the submitter", "cut all connections", "drain worker",
	}[c.rand.IntN(7)]
	c.t.Log(what, i)
	switch what {
	case "kill worker":
		c.kill(i)
		c.startWorker(i)
	case "kill all workers":
		for i := range 3 {
			c.kill(i)
		}
		for i := range 3 {
			c.startWorker(i)
		}
	case "stop worker":
		c.mayRun += chaosAtOnce
		c.workers[i].Send(syscall.SIGSTOP)
		time.Sleep(time.Duration(500+c.rand.IntN(4000)) * time.Millisecond)
		c.workers[i].Send(syscall.SIGCONT)
	case "kill the broker":
		c.mayRun += 3 * chaosAtOnce // if it takes long to come back
		c.broker.Kill()
		c.startBroker()
	case "kill the submitter":
		c.mayRun += 3 * chaosAtOnce
		if c.handed {
			c.replace(i)
			return
		}
		c.killed = true
		c.sub.Kill()
		c.submit("--replay")
	case "cut all connections":
		c.mayRun += 3 * chaosAtOnce
		c.proxy.cut(time.Duration(c.rand.IntN(4000)) * time.Millisecond)
	case "drain worker":
		c.workers[i].Send(syscall.SIGINT)
		c.workers[i].Wait()
		c.startWorker(i)
	}
}

// replace has another dispatcher go on, or another attach.
func (c *chaos) replace(how int) {
	switch how {
	case 0:
		c.dispatcher.Kill()
	case 1:
		c.dispatcher.Send(syscall.SIGTERM)
		c.dispatcher.Wait()
	default:
		c.sub.Kill()
		c.attach()
		return
	}
	c.dispatch()
}

func (c *chaos) kill(i int) {
	c.mayRun += chaosAtOnce
	c.workers[i].Kill()
}

// account checks what has happened, and returns how many attempts ran again.
func (c *chaos) account() (again int) {
	var want strings.Builder
	for i := range chaosTasks {
		fmt.Fprintf(&want, "this is the output of %d\n", i)
	}
	require.Equal(c.t, want.String(), c.sub.Stdout())
	log, err := os.ReadFile(filepath.Join(c.dir, "log"))
	require.NoError(c.t, err)
	begun, ended, latest := map[string]int{}, map[string]int{}, map[int]int{}
	for l := range strings.Lines(string(log)) {
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
	// A lease may run out without a fault where a machine stands still, or a cluster has no leader.
	lapses := strings.Count(c.sub.Stderr(), " is lost: ")
	for _, w := range c.workers {
		if w != nil {
			lapses += strings.Count(w.Stderr(), "has not confirmed the lease")
		}
	}
	require.LessOrEqual(c.t, again, c.mayRun+lapses*chaosAtOnce)
	return again
}

// proxy passes connections on to the broker.
type proxy struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	conns    []net.Conn
	until    time.Time // refuse connections
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, to: to}
	t.Cleanup(func() { _ = l.Close(); p.cut(0) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	p.mu.Lock()
	refuse := time.Now().Before(p.until)
	p.mu.Unlock()
	if refuse {
		return
	}
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer far.Close()
	p.mu.Lock()
	p.conns = append(p.conns, conn, far)
	p.mu.Unlock()
	go func() { _, _ = io.Copy(far, conn); _ = far.Close() }()
	_, _ = io.Copy(conn, far)
}

// wait waits until connections can be made again: programs that cannot connect when
// they start give up.
func (p *proxy) wait() {
	p.mu.Lock()
	until := p.until
	p.mu.Unlock()
	time.Sleep(time.Until(until))
}

// cut closes all connections and lets none be made for a while.
func (p *proxy) cut(pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(pause)
	for _, c := range slices.Backward(p.conns) {
		_ = c.Close()
	}
	p.conns = nil
}
