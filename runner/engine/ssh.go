package engine

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/cli"
	"crew/runner/wiring"
)

// With --ssh there is no port: the server is part of the submitter's process. What a
// worker on another host says to it goes through the standard input and output of its
// ssh, whose end therefore is the worker's.

const (
	leastPause = time.Second      // before another try to have a worker on a host
	mostPause  = 30 * time.Second // it doubles until then
	lasting    = 10 * time.Second // a worker that was there for so long counts as started
	answerTime = 30 * time.Second // for the shell of a host
	endTime    = 3 * time.Second  // for ssh, once the run is over
)

// privateLimits are those of the streams in the memory of a run with --ssh. Files that
// travel are on disk.
var privateLimits = limits{storage: jetstream.MemoryStorage, tasks: 10_000, results: 64 << 20, replicas: 1}

// privateMemory is the most that all streams may take. The server would make it depend
// on the machine, and refuse the streams where that is small.
const privateMemory = 1 << 30

// sshOptions make ssh ask nothing, forward nothing, and notice that a host is gone.
// It may use a connection that its user shares, but must not become it: ssh is killed
// with crew.
var sshOptions = []string{
	"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
	"-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "RemoteCommand=none",
}

// sshHosts keeps a worker on each host of a run with --ssh.
type sshHosts struct {
	server  *server.Server
	owner   nats.Option              // what the submitter connects as
	program func() (*program, error) // what runs there
	args    []string                 // of a worker, but for those of its host
	notice  func(string)
	reach   time.Duration // of --connect-timeout
	close   func()        // ends everything
	wg      sync.WaitGroup

	mu    sync.Mutex
	hosts []*host
	since time.Time // when a host was last there, or the run began
}

// startHosts starts a server in this process and keeps a worker on each host until
// close, after which none is left there. They run what comes by the server, which nobody
// else can reach and which has crew's streams. Hosts that cannot be reached are tried
// again until close.
func startHosts(sub wiring.Submission) (*sshHosts, error) {
	p := &sshHosts{notice: sub.Notice, reach: sub.Reach, since: time.Now(), program: sync.OnceValues(openProgram)}
	needed := slices.ContainsFunc(sub.Hosts, func(h cli.Host) bool { return h.Target != "" })
	if _, err := exec.LookPath("ssh"); needed && err != nil {
		return nil, errors.New("--ssh needs the program ssh, which is not in PATH: install openssh-client")
	}
	removeDir, err := p.serve()
	if err != nil {
		return nil, err
	}
	p.args = []string{
		"--protocol", strconv.Itoa(wiring.EngineProtocol), "worker", "--engine", stdioURL, "--queue", sub.Queue,
		"--worker-ttl", sub.TTL.String(), "--allow-commands", "--trust", stdioURL, "--quiet", "--progress", "never",
		"--worker-window", strconv.Itoa(sub.Window),
	}
	if sub.PTY {
		p.args = append(p.args, "--pty")
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, h := range sub.Hosts {
		h := &host{Host: h, all: p}
		p.hosts = append(p.hosts, h)
		p.wg.Go(func() { h.keep(ctx) })
	}
	p.close = func() {
		cancel()
		p.wg.Wait()
		p.server.Shutdown()
		p.server.WaitForShutdown()
		removeDir()
	}
	return p, nil
}

// connect connects the submitter to the server.
func (p *sshHosts) connect(notice func(string)) (*session, error) {
	return dial("", notice, nats.InProcessServer(p.server), p.owner)
}

// serve starts the server, with crew's streams in its memory.
func (p *sshHosts) serve() (removeDir func(), err error) {
	dir, removeDir, err := privateDir()
	if err != nil {
		return nil, err
	}
	worker, owner := &server.User{Username: "worker", Permissions: workerRights().permissions()}, &server.User{Username: "owner", Password: rand.Text()}
	o := &server.Options{
		StoreDir: dir, DontListen: true, JetStreamMaxMemory: privateMemory,
		WriteDeadline: time.Minute, // an ssh that stands still so long is cut off
		Users:         []*server.User{worker, owner},
		NoAuthUser:    worker.Username, // what comes from another host is a worker's
	}
	p.owner = nats.UserInfo(owner.Username, owner.Password)
	if p.server, err = startServer(o, privateLimits, p.owner); err != nil {
		removeDir()
		return nil, err
	}
	return removeDir, nil
}

// host keeps a worker on one machine. It belongs to one goroutine, but for its state.
type host struct {
	cli.Host
	all  *sshHosts
	down bool // and its user knows

	// state, under all.mu

	there  bool // its worker is, or is being copied there
	served bool // its worker has been there
	lost   bool // and has gone at least once
}

// keep has a worker on the host until ctx is done.
func (h *host) keep(ctx context.Context) {
	pause := leastPause
	for ctx.Err() == nil {
		began := time.Now()
		err := h.visit(ctx)
		if ctx.Err() != nil {
			return
		}
		h.leaves()
		if err == nil {
			h.say("its worker has ended: it is not started again")
			return
		}
		if !h.down {
			h.down = true
			h.say(err.Error())
		}
		if time.Since(began) > lasting {
			pause = leastPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

func (h *host) say(text string) { h.all.notice(h.String() + ": " + text) }

// visit has one worker run on the host. It returns nil if that has ended by itself.
func (h *host) visit(ctx context.Context) error {
	cmd := h.command(ctx)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	said := &stderrLines{show: h.say}
	cmd.Stderr = said
	cmd.WaitDelay = endTime
	cmd.Cancel = func() error {
		if said.live.Swap(false) {
			return stdin.Close() // which ends the worker
		}
		return cmd.Process.Kill()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	from := bufio.NewReader(stdout)
	if h.Target != "" {
		err = h.install(cmd, stdin, from)
	}
	up := false
	if err == nil {
		up, err = h.bridge(stdin, from, func() {
			said.forget()
			said.live.Store(ctx.Err() == nil)
			h.arrives(true)
			if h.down {
				h.down = false
				h.say("it is there now")
			}
		})
	}
	said.live.Store(false)
	_ = stdin.Close()
	return h.explain(cmd.Wait(), err, up, said.last())
}

// command returns the command that has the worker, or the shell that will become it.
func (h *host) command(ctx context.Context) (cmd *exec.Cmd) {
	if h.Target == "" {
		cmd = exec.CommandContext(ctx, "/proc/self/exe", h.args()...)
		cmd.Args[0] = engineName
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CREW_OPTS=") })
	} else {
		args := sshOptions
		if h.Port != "" {
			args = append(args[:len(args):len(args)], "-p", h.Port)
		}
		// Any login shell reads this alike. All the rest is for /bin/sh to read.
		cmd = exec.CommandContext(ctx, "ssh", append(args[:len(args):len(args)], "--", h.Target, "exec /bin/sh")...)
	}
	// A Ctrl-C at the terminal is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// args returns the arguments of crew-engine on the host.
func (h *host) args() []string {
	args := slices.Clone(h.all.args)
	if h.Name != "" {
		args = append(args, "--name", h.Name)
	}
	if h.Slots > 0 {
		args = append(args, "--jobs", strconv.Itoa(h.Slots))
	}
	return args
}

// bridge connects a worker to the server until one of them ends that. It calls there
// once the worker has spoken.
func (h *host) bridge(stdin io.WriteCloser, stdout io.Reader, there func()) (up bool, err error) {
	conn, err := h.all.server.InProcessConn()
	if err != nil {
		return false, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(stdin, conn)
		_ = stdin.Close()
	}()
	first := make([]byte, 4096)
	if n, _ := stdout.Read(first); n > 0 {
		up = true
		there()
		if _, err := conn.Write(first[:n]); err == nil {
			_, _ = io.Copy(conn, stdout)
		}
	}
	_ = conn.Close()
	<-done
	// What is left, until the worker has ended.
	_, _ = io.Copy(io.Discard, stdout)
	return up, nil
}

// explain returns why a worker is not there any more. ended is how its process ended,
// err what went wrong before, last what was said last. A process that was killed did not
// say why.
func (h *host) explain(ended, err error, up bool, last string) error {
	port := ""
	if h.Port != "" {
		port = "-p " + h.Port + " "
	}
	var exit *exec.ExitError
	status := -1
	if errors.As(ended, &exit) {
		if status = exit.ExitCode(); status == -1 {
			last = ""
		}
	}
	switch {
	case err != nil && err != errEnded:
		return err
	case up && ended == nil:
		return nil
	case ended == nil:
		ended = errEnded
	}
	last = cmp.Or(last, ended.Error())
	switch {
	case up:
		return fmt.Errorf("its worker is gone (%s): starting it again", last)
	case status == 255 && h.Target != "":
		return fmt.Errorf("cannot reach it (%s): trying again; `ssh %s%s true` must work without a prompt%s",
			last, port, h.Target, h.maybeFile())
	case err == nil && h.Target != "":
		return fmt.Errorf("%s does not run there (%s): trying again; built with CGO_ENABLED=0, it needs no C library", engineName, last)
	}
	return fmt.Errorf("no worker starts there (%s): trying again", last)
}

// maybeFile is a hint for a host that is the name of a file.
func (h *host) maybeFile() string {
	if info, err := os.Stat(h.Target); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return "; if you mean the file, write ./" + h.Target
}
