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
	leastPause = time.Second      // before the first new try; it doubles
	mostPause  = 30 * time.Second // up to this
	lasting    = 10 * time.Second // a worker that lived this long resets the pause
	answerTime = 30 * time.Second // for the shell of a host to answer
	endTime    = 3 * time.Second  // for ssh to end after Close
	shortTime  = 2 * time.Second  // too short to blame a host that has not answered
)

// sshOptions make ssh ask nothing, forward nothing, and notice that a host is gone. ssh
// may use a connection that its user shares, but must not become the shared one, because
// it is killed with crew.
var sshOptions = []string{
	"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
	"-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "RemoteCommand=none",
}

// host keeps a worker on one machine.
type host struct {
	Host
	all    *Hosts
	joined time.Time
	stop   context.CancelFunc // ends keeping a worker there

	// of keep's goroutine

	platform string // as uname -sm prints it; "" for this machine's

	// under all.mu

	leaving bool   // its worker is to end
	at      stage  // of the visit to it
	served  bool   // it has had a worker
	lost    bool   // it has lost one
	failed  bool   // it could not be reached, or its worker has failed, and no other is there
	never   string // why it cannot be reached however long one waits; "" if it may be
}

func (h *host) name() string { return cmp.Or(h.Target, "this machine") }

func (h *host) say(text string) { h.all.c.Notice(h.name() + ": " + text) }

// arrives notes how far the visit has come. It returns false if the host is leaving.
func (h *host) arrives(at stage) bool {
	h.all.mu.Lock()
	back := at == working && h.failed
	if h.at, h.never = at, ""; at == working {
		h.served, h.failed = true, false
	}
	leaving := h.leaving
	h.all.mu.Unlock()
	if back {
		h.say("it is there now")
	}
	return !leaving
}

// leaves notes that the host has no worker, or why a visit failed. It returns true if it is leaving, or
// else whether that is news.
func (h *host) leaves(err error) (leaving, news bool) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.lost = h.lost || h.served && !h.leaving
	h.at = starting
	news = err != nil && !h.failed
	h.failed = h.failed || err != nil
	return h.leaving, news && h.all.hopeless() == nil // which ends the run
}

// keep has a worker on the host until ctx is done, or the host has left. Once a worker has ended
// by itself, it starts no other.
func (h *host) keep(ctx context.Context) {
	pause := leastPause
	for {
		began := time.Now()
		err := h.visit(ctx)
		leaving, news := h.leaves(err)
		switch {
		case leaving || ctx.Err() != nil:
			return
		case err == nil:
			h.say("its worker has ended: it is not started again")
			<-ctx.Done()
			return
		case news:
			h.say(err.Error())
		}
		if time.Since(began) > lasting {
			pause = leastPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// visit runs one worker on the host. It returns nil if the worker ended by itself.
func (h *host) visit(ctx context.Context) error {
	cmd, err := h.command(ctx)
	if err != nil {
		return err
	}
	said := &stderrLines{show: h.say}
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err = errors.Join(inErr, outErr); err != nil {
		return err
	}
	cmd.Stderr, cmd.WaitDelay = said, endTime
	cmd.Cancel = func() error {
		if said.live.Swap(false) {
			return stdin.Close() // which ends the worker
		}
		return cmd.Process.Kill()
	}
	if err = cmd.Start(); err != nil {
		return err
	}
	from := bufio.NewReader(stdout)
	if h.Target != "" { // or else there is nothing to copy
		err = h.install(cmd, stdin, from)
	}
	if h.Target == "" || h.at == running {
		err = h.bridge(stdin, from, func() bool {
			said.last.Store("") // what a login prints is not why the worker fails later
			said.live.Store(ctx.Err() == nil)
			return h.arrives(working)
		})
	}
	said.live.Store(false)
	_ = stdin.Close()
	_ = cmd.Wait()
	if last, _ := said.last.Load().(string); err == nil {
		err = h.explain(cmd.ProcessState, last)
	}
	return err
}

// command returns the command of the worker, or of the shell that becomes it.
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
		// Every login shell understands this; /bin/sh reads the rest.
		cmd = exec.CommandContext(ctx, h.all.c.ssh(), h.sshArgs("exec /bin/sh")...)
	}
	// Ctrl-C at the terminal must not reach it. It ends with its standard input, too.
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

// bridge connects a worker to the server and returns once both sides have ended. It calls
// up when the worker writes its first byte, which says whether to go on.
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

// stage is how far a visit to a host has come: what it says of why it has ended there.
type stage string

const (
	starting stage = "no worker starts there (%s): trying again"
	copying  stage = "cannot copy " + programName + " there (%s): trying again"
	running  stage = programName + " does not run there (%s): trying again; built with CGO_ENABLED=0, it needs no C library"
	working  stage = "its worker is gone (%s): starting it again"
)

// explain returns why a worker is gone, or nil if it ended by itself. ended is how its
// process ended, and last the last line on stderr.
func (h *host) explain(ended *os.ProcessState, last string) error {
	code := ended.ExitCode()
	if code == -1 {
		last = "" // a killed process did not say why
	}
	last = cmp.Or(last, ended.String())
	switch {
	case h.at == working && code == 0:
		return nil
	case h.at != working && code == 255 && h.Target != "":
		return h.unreachable(last)
	}
	return fmt.Errorf(string(h.at), last)
}

// final are the parts of what ssh says, as its status does not tell, of which each means that it
// does no good to try again.
var final = []string{
	"Name or service not known", "nodename nor servname provided", "No address associated with hostname", "hostname contains invalid characters",
	"Permission denied (", "Host key verification failed",
}

// unreachable returns the error for a host that ssh does not reach, with hints.
func (h *host) unreachable(why string) error {
	if slices.ContainsFunc(final, func(part string) bool { return strings.Contains(why, part) }) {
		h.all.mu.Lock()
		h.never = why
		h.all.mu.Unlock()
	}
	port, file := "", ""
	if h.Port != "" {
		port = "-p " + h.Port + " "
	}
	if info, err := os.Stat(h.Target); err == nil && info.Mode().IsRegular() {
		file = "; if you mean the file, write ./" + h.Target
	}
	return fmt.Errorf("cannot reach it (%s): trying again; `ssh %s%s true` must work without a prompt%s", why, port, h.Target, file)
}
