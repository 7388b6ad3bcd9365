package engine

import (
	"bytes"
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
)

// TestChaos runs a submitter, a broker and three workers as processes, with the broker
// behind a proxy, and does something to them at random moments. CREW_SOAK is how often;
// CREW_SOAK_SEED repeats a round that failed. Nothing may be lost, every result is
// shown once and in order, no task runs twice at the same time, and only what ran at a
// fault runs again. In each second round persistent workers run the tasks.
func TestChaos(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("CREW_SOAK"))
	if err != nil {
		t.Skip("CREW_SOAK is how many rounds to run")
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("CREW_SOAK_SEED"), 10, 64); err == nil {
		rounds, seed = 1, n
	}
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin, "crew", "crew/runner/engine/crew-engine").CombinedOutput()
	require.NoError(t, err, "%s", out)
	again := 0
	for i := range uint64(rounds) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			c := newChaos(t, bin, seed+i)
			c.round()
			again += c.again
		})
	}
	t.Logf("%d rounds of %d tasks: %d attempts were run again", rounds, chaosTasks, again)
}

// logged returns how much the tasks have logged.
func (c *chaos) logged() int64 {
	info, err := os.Stat(filepath.Join(c.dir, "log"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// underway waits until a submitter, which gives up if the engine is away when it starts,
// has had tasks begun or has ended.
func (c *chaos) underway(before int64, sub *exec.Cmd) {
	crewtest.Until(c.t, func() bool {
		return c.logged() > before || sub.Process.Signal(syscall.Signal(0)) != nil
	}, "tasks to begin")
}

const (
	chaosTasks = 400
	chaosKeys  = 40
	chaosSlots = 4
	chaosTTL   = "2s"
)

// chaosTask logs what it does. A lock tells whether another task of its key, or another
// attempt at it, still runs.
const chaosTask = `exec 9>>"$2/lock.$CREW_KEY"
flock -n 9 || echo "overlap $1 $CREW_ATTEMPT" >> "$2/log"
echo "begin $1 $CREW_ATTEMPT $CREW_HOST" >> "$2/log"
sleep 0.0$(($1 * 7 % 10))
echo "this is the output of $1"
echo "end $1 $CREW_ATTEMPT" >> "$2/log"
`

// chaosLoop is a persistent worker that does the same.
const chaosLoop = `while read -r id CREW_KEY; do
	export CREW_KEY
	CREW_ATTEMPT=0 sh task "$id" "$1"
done
`

// chaos is one round.
type chaos struct {
	t       *testing.T
	bin     string
	dir     string
	rand    *rand.Rand
	env     []string
	words   []string // the command
	proxy   *proxy
	port    string
	broker  *exec.Cmd
	workers [3]*exec.Cmd
	stdout  bytes.Buffer
	mayRun  int // how many attempts may have been run again
	again   int
	mu      sync.Mutex
	said    bytes.Buffer
}

func newChaos(t *testing.T, bin string, seed uint64) *chaos {
	c := &chaos{t: t, bin: bin, dir: t.TempDir(), rand: rand.New(rand.NewPCG(seed, 0))}
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "task"), []byte(chaosTask), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "loop"), []byte(chaosLoop), 0o666))
	if c.words = []string{"sh", "task", "{1}", c.dir}; seed%2 == 1 {
		c.words = []string{"--worker", "sh loop " + c.dir}
	}
	require.NoError(t, os.Mkdir(filepath.Join(c.dir, "runtime"), 0o700))
	c.env = append(os.Environ(), "XDG_RUNTIME_DIR="+filepath.Join(c.dir, "runtime"), "CREW_OPTS=")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, c.port, _ = net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	c.startBroker()
	c.proxy = newProxy(t, "127.0.0.1:"+c.port)
	for _, who := range []string{"worker.json", "submitter.json"} {
		var text []byte
		crewtest.Until(t, func() bool {
			text, err = os.ReadFile(filepath.Join(c.dir, "hub", who))
			return err == nil
		}, "%s", who)
		text = bytes.ReplaceAll(text, []byte("127.0.0.1:"+c.port), []byte(c.proxy.listener.Addr().String()))
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, who), text, 0o600))
	}
	t.Cleanup(func() {
		for _, w := range append(c.workers[:], c.broker) {
			if w != nil {
				_ = w.Process.Kill()
				_ = w.Wait()
			}
		}
		if t.Failed() {
			c.mu.Lock()
			t.Logf("they said:\n%s", c.said.String())
			c.mu.Unlock()
		}
	})
	return c
}

// Write takes what the programs say.
func (c *chaos) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(p)
}

func (c *chaos) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, "crew"), args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	return cmd
}

func (c *chaos) start(args ...string) *exec.Cmd {
	cmd := c.command(args...)
	cmd.Stdout, cmd.Stderr = c, c
	require.NoError(c.t, cmd.Start())
	return cmd
}

func (c *chaos) startBroker() {
	c.broker = c.start("engine", "serve", "--dir", filepath.Join(c.dir, "hub"), "--listen", "127.0.0.1:"+c.port)
	crewtest.Until(c.t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+c.port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "the broker")
}

func (c *chaos) startWorker(i int) {
	c.proxy.wait()
	args := []string{"worker", "--engine", filepath.Join(c.dir, "worker.json"), "-j", strconv.Itoa(chaosSlots), "--name", "host" + strconv.Itoa(i),
		"--worker-ttl", chaosTTL}
	c.workers[i] = c.start(append(args, c.words...)...)
}

func (c *chaos) submitter(tasks int, more ...string) *exec.Cmd {
	args := append([]string{
		"--engine", filepath.Join(c.dir, "submitter.json"), "-k", "--state", filepath.Join(c.dir, "state"), "--no-control",
		"--sched", "keyed", "-C", " ", "--key", "{2}"}, more...)
	args = append(append(args, c.words...), ":::")
	for i := range tasks {
		args = append(args, fmt.Sprintf("%d %d", i, i%chaosKeys))
	}
	cmd := c.command(args...)
	cmd.Stdout, cmd.Stderr = &c.stdout, c
	return cmd
}

// round runs all tasks, disturbs them three times, and checks what has become of them.
func (c *chaos) round() {
	for i := range 3 {
		c.startWorker(i)
	}
	sub := c.submitter(chaosTasks)
	require.NoError(c.t, sub.Start())
	c.underway(0, sub)
	over := make(chan error, 1)
	wait := func() {
		s := sub
		go func() { over <- s.Wait() }()
	}
	wait()
	killed := false
	var err error
	for faults, done := 0, false; !done; {
		select {
		case err = <-over:
			done = true
			continue
		case <-time.After(time.Duration(100+c.rand.IntN(900)) * time.Millisecond):
		}
		if faults++; faults > 3 {
			select {
			case err = <-over:
				done = true
			case <-time.After(2 * time.Minute):
				_ = sub.Process.Signal(syscall.SIGQUIT)
				time.Sleep(time.Second)
				_ = sub.Process.Kill()
				require.Fail(c.t, "the run does not end")
			}
			continue
		}
		switch what := c.rand.IntN(7); what {
		case 0:
			i := c.rand.IntN(3)
			fmt.Fprintf(c, "-- kill worker %d\n", i)
			c.kill(i)
			c.startWorker(i)
		case 1:
			fmt.Fprintf(c, "-- kill all workers\n")
			for i := range 3 {
				c.kill(i)
			}
			for i := range 3 {
				c.startWorker(i)
			}
		case 2:
			i := c.rand.IntN(3)
			fmt.Fprintf(c, "-- stop worker %d\n", i)
			c.mayRun += chaosSlots
			_ = c.workers[i].Process.Signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(500+c.rand.IntN(4000)) * time.Millisecond)
			_ = c.workers[i].Process.Signal(syscall.SIGCONT)
		case 3:
			fmt.Fprintf(c, "-- kill the broker\n")
			c.mayRun += 3 * chaosSlots // if it takes long to come back
			_ = c.broker.Process.Kill()
			_ = c.broker.Wait()
			c.startBroker()
		case 4:
			fmt.Fprintf(c, "-- kill the submitter\n")
			c.mayRun += 3 * chaosSlots
			killed = true
			if sub.Process.Kill() == nil {
				<-over
			}
			c.stdout.Reset()
			c.proxy.wait()
			sub = c.submitter(chaosTasks, "--replay")
			before := c.logged()
			require.NoError(c.t, sub.Start())
			wait()
			c.underway(before, sub)
		case 5:
			cut := time.Duration(c.rand.IntN(4000)) * time.Millisecond
			fmt.Fprintf(c, "-- cut all connections for %v\n", cut)
			c.mayRun += 3 * chaosSlots
			c.proxy.cut(cut)
		case 6:
			fmt.Fprintf(c, "-- drain worker\n")
			i := c.rand.IntN(3)
			_ = c.workers[i].Process.Signal(syscall.SIGINT)
			_ = c.workers[i].Wait()
			c.startWorker(i)
		}
	}
	require.NoError(c.t, err)
	if killed && c.stdout.Len() == 0 {
		return
	}
	c.account(chaosTasks)
}

func (c *chaos) kill(i int) {
	c.mayRun += chaosSlots
	_ = c.workers[i].Process.Kill()
	_ = c.workers[i].Wait()
}

// account checks what has happened.
func (c *chaos) account(tasks int) {
	var want strings.Builder
	for i := range tasks {
		fmt.Fprintf(&want, "this is the output of %d\n", i)
	}
	require.Equal(c.t, want.String(), c.stdout.String())
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
	for i := range tasks {
		id := strconv.Itoa(i)
		require.Positive(c.t, ended[id], id)
		c.again += begun[id] - 1
	}
	require.LessOrEqual(c.t, c.again, c.mayRun)
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
