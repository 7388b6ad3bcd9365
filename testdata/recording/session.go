package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const (
	quiet    = 60 * time.Millisecond // without output, and the screen counts as drawn
	patience = 5 * time.Minute
)

// failure is the panic by which a recording ends early.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// session is a terminal with a shell. Its methods panic with a failure.
type session struct {
	screen *screen
	tty    *os.File
	shell  *exec.Cmd
	cues   map[string]*os.File // by the name of a task; it ends once it has read a line
	frames []frame
	paced  time.Time
}

// frame is a picture, and how long it is shown.
type frame struct {
	*screen
	stays time.Duration
	still bool // it stands for all where nothing is to move
}

// start starts the shell.
func (s *session) start(dir string, env []string) (err error) {
	// Without its line editor, what is typed is shown by the terminal.
	s.shell = exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	s.shell.Dir, s.shell.Env = dir, env
	size := pty.Winsize{Rows: uint16(len(s.screen.cells)), Cols: uint16(len(s.screen.cells[0]))}
	tty, err := pty.StartWithSize(s.shell, &size)
	if err != nil {
		return err
	}
	defer tty.Close()
	fd, err := unix.Dup(int(tty.Fd())) // after Fd, reads of tty block and have no deadline
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	s.tty = os.NewFile(uintptr(fd), "terminal")
	return err
}

// close ends the shell and what it has started: without cues, no task goes on.
func (s *session) close() {
	for _, f := range s.cues {
		f.Close()
	}
	s.tty.Close()
	_ = s.shell.Wait()
}

// read shows what is written until a moment. It reports whether there was anything.
func (s *session) read(until time.Time) (some bool) {
	buf := make([]byte, 4096)
	for {
		check(s.tty.SetReadDeadline(until))
		n, err := s.tty.Read(buf)
		check(s.screen.write(buf[:n]))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return some
		}
		check(err)
		some = true
	}
}

// await waits until the screen is at rest and matches all of some expressions.
func (s *session) await(exprs ...string) {
	unseen := func(expr string) bool { return !regexp.MustCompile(expr).MatchString(s.screen.String()) }
	s.until(fmt.Sprintf("%q", exprs), func() bool {
		return !s.read(time.Now().Add(quiet)) && !slices.ContainsFunc(exprs, unseen)
	})
}

func (s *session) until(what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			check(fmt.Errorf("waited in vain for %s on\n%s", what, s.screen))
		}
	}
}

// shot takes a picture that stays so long.
func (s *session) shot(stays time.Duration) {
	s.frames = append(s.frames, frame{screen: s.screen.clone(), stays: stays})
}

// pace gives the tasks time, so the durations that are shown are not all the same.
func (s *session) pace(d time.Duration) {
	s.read(s.paced.Add(d))
	s.paced = time.Now()
}

// cue ends a task with what it says.
func (s *session) cue(name, line string) {
	_, err := fmt.Fprintln(s.cues[name], line)
	check(err)
}

// press types keys that are not shown.
func (s *session) press(keys string) {
	_, err := s.tty.WriteString(keys)
	check(err)
}

// enter types a command, which is seen.
func (s *session) enter(command string) {
	s.shot(400 * time.Millisecond)
	for i, r := range command {
		x := s.screen.col
		s.press(string(r))
		s.until("the key", func() bool {
			s.read(time.Now().Add(time.Millisecond))
			return s.screen.col == x+1
		})
		if i%2 == 1 || i == len(command)-1 { // a picture of every key is twice as large
			s.shot(70 * time.Millisecond)
		}
	}
	s.frames[len(s.frames)-1].stays = 500 * time.Millisecond
	s.press("\n")
	s.paced = time.Now()
}
