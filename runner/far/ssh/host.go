package ssh

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"crew/runner/exec/kernel"
)

const (
	minPause   = time.Second      // before the first retry; doubles each time
	maxPause   = 30 * time.Second // limit of the pause
	longLived  = 10 * time.Second // an attempt that lasted this long resets the pause
	answerTime = 30 * time.Second // for the shell of a host to answer
	endTime    = 3 * time.Second  // for ssh to end after Close
	shortTime  = 2 * time.Second  // a host that has not answered within this time is not reported missing
)

// sshOptions make ssh run without prompts and forwarding, and notice when a host is gone. ssh may use a
// shared connection of the user, but must not become its master, because it is killed with crew.
var sshOptions = []string{
	"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
	"-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "RemoteCommand=none",
}

// host keeps a worker on one machine.
type host struct {
	Host
	all    *Hosts
	joined time.Time
	stop   context.CancelFunc // ends run

	// Used only by run's goroutine.

	platform string // in the form of uname -sm; "" for this machine's

	// Protected by all.mu.

	leaving bool   // its worker should end
	stage   stage  // how far the current attempt has come
	served  bool   // it has had a worker
	lost    bool   // it has lost a worker
	failed  bool   // it was not reached or its worker failed, and it has had no worker since
	fatal   string // why it can never be reached; "" if it may be
}

func (h *host) name() string { return cmp.Or(h.Target, "this machine") }

func (h *host) notice(text string) { h.all.c.Notice(h.name() + ": " + text) }

// setStage records how far the current attempt has come. It returns false if the host is leaving.
func (h *host) setStage(s stage) bool {
	h.all.mu.Lock()
	back := s == working && h.failed
	if h.stage, h.fatal = s, ""; s == working {
		h.served, h.failed = true, false
	}
	leaving := h.leaving
	h.all.mu.Unlock()
	if back {
		h.notice("connected")
	}
	return !leaving
}

// workerEnded records that the host has no worker, and err, the reason why the attempt failed. news is
// false if err is nil, if an earlier failure was already reported, or if no host can ever be reached,
// which ends the run.
func (h *host) workerEnded(err error) (leaving, news bool) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.lost = h.lost || h.served && !h.leaving
	h.stage = starting
	news = err != nil && !h.failed
	h.failed = h.failed || err != nil
	return h.leaving, news && h.all.hopelessLocked() == nil
}

// run keeps a worker on the host until ctx is done or the host has left. Once a worker has ended by
// itself, run does not start another.
func (h *host) run(ctx context.Context) {
	pause := minPause
	for {
		began := time.Now()
		err := h.runWorker(ctx)
		leaving, news := h.workerEnded(err)
		switch {
		case leaving || ctx.Err() != nil:
			return
		case err == nil:
			h.notice("its worker has ended and is not restarted")
			<-ctx.Done()
			return
		case news:
			h.notice(err.Error())
		}
		if time.Since(began) > longLived {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// runWorker runs one worker on the host. It returns nil if the worker ended by itself.
func (h *host) runWorker(ctx context.Context) error {
	cmd, err := h.command(ctx)
	if err != nil {
		return err
	}
	stderr := &stderrLines{show: h.notice}
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err = errors.Join(inErr, outErr); err != nil {
		return err
	}
	cmd.Stderr, cmd.WaitDelay = stderr, endTime
	cmd.Cancel = func() error {
		if stderr.live.Swap(false) {
			return stdin.Close() // this ends the worker
		}
		return cmd.Process.Kill()
	}
	if err = cmd.Start(); err != nil {
		return err
	}
	from := bufio.NewReader(stdout)
	if h.Target != "" { // otherwise there is nothing to copy
		err = h.install(cmd, stdin, from)
	}
	if h.Target == "" || h.stage == running {
		err = h.bridge(stdin, from, func() bool {
			stderr.last.Store("") // the output of a login is not why the worker fails later
			stderr.live.Store(ctx.Err() == nil)
			return h.setStage(working)
		})
	}
	stderr.live.Store(false)
	_ = stdin.Close()
	_ = cmd.Wait()
	if last, _ := stderr.last.Load().(string); err == nil {
		err = h.explain(cmd.ProcessState, last)
	}
	return err
}

// command returns the command of the worker, or of the ssh whose shell becomes the worker.
func (h *host) command(ctx context.Context) (cmd *exec.Cmd, err error) {
	if h.Target == "" {
		own, err := kernel.OwnPath()
		if err != nil {
			return nil, err
		}
		cmd = exec.CommandContext(ctx, own, h.Args...)
		cmd.Args[0] = programName
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CREW_OPTS=") })
	} else {
		// Every login shell understands this. /bin/sh reads the script from stdin.
		cmd = exec.CommandContext(ctx, h.all.c.SSH, h.sshArgs("exec /bin/sh")...)
	}
	// Ctrl-C at the terminal must not reach the child. It also ends when its standard input does.
	cmd.SysProcAttr = kernel.DieWithParent(&syscall.SysProcAttr{Setsid: true}, syscall.SIGKILL)
	return cmd, nil
}

// sshArgs returns the arguments of an ssh that runs a command on the host.
func (h *host) sshArgs(command string) []string {
	args := slices.Clone(sshOptions)
	if h.Port != "" {
		args = append(args, "-p", h.Port)
	}
	return append(args, "--", h.Target, command)
}

// bridge connects a worker to the server and returns once both sides have ended. It calls up when the
// worker writes its first byte; if up returns false, bridge closes the connection.
func (h *host) bridge(stdin io.WriteCloser, stdout *bufio.Reader, up func() bool) error {
	conn, err := h.all.c.Connect()
	if err != nil {
		return err
	}
	var in sync.WaitGroup
	in.Go(func() {
		_, _ = io.Copy(stdin, conn)
		_ = stdin.Close()
	})
	if _, err := stdout.Peek(1); err == nil && up() {
		_, _ = io.Copy(conn, stdout)
	}
	_ = conn.Close()
	in.Wait()
	_, _ = io.Copy(io.Discard, stdout) // until the worker has ended
	return nil
}

// stage is how far an attempt to run a worker has come. Its text is the format of the error for an
// attempt that ended there.
type stage string

const (
	starting stage = "cannot start a worker there (%s): trying again"
	copying  stage = "cannot copy " + programName + " there (%s): trying again"
	running  stage = programName + " does not run there (%s): trying again; built with CGO_ENABLED=0, it needs no C library"
	working  stage = "lost its worker (%s): restarting it"
)

// explain returns why a worker is gone, or nil if it ended by itself. ended is the state of its
// process, and last the last line of its stderr.
func (h *host) explain(ended *os.ProcessState, last string) error {
	code := ended.ExitCode()
	if code == -1 {
		last = "" // a killed process did not say why
	}
	last = cmp.Or(last, ended.String())
	switch {
	case h.stage == working && code == 0:
		return nil
	case h.stage != working && code == 255 && h.Target != "":
		return h.unreachable(last)
	}
	return fmt.Errorf(string(h.stage), last)
}

// fatalErrors are parts of ssh's error messages after which retrying is pointless. The exit status of
// ssh does not tell.
var fatalErrors = []string{
	"Name or service not known", "nodename nor servname provided", "No address associated with hostname", "hostname contains invalid characters",
	"Permission denied (", "Host key verification failed",
}

// unreachable returns the error for a host that ssh cannot reach, with hints. It records whether
// retrying is pointless.
func (h *host) unreachable(why string) error {
	if info, err := os.Stat(h.Target); err == nil && info.Mode().IsRegular() {
		why += "; if you mean the file, write -S ./" + h.Target
	}
	if slices.ContainsFunc(fatalErrors, func(part string) bool { return strings.Contains(why, part) }) {
		h.all.mu.Lock()
		h.fatal = why
		h.all.mu.Unlock()
	}
	port := ""
	if h.Port != "" {
		port = "-p " + h.Port + " "
	}
	return fmt.Errorf("cannot reach it (%s): trying again; `ssh %s%s true` must work without a prompt", why, port, h.Target)
}
