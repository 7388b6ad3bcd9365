package jobserver

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// Auth locates the tokens of a jobserver, as a variable MAKEFLAGS does. See "POSIX
// Jobserver Interaction" in the manual of GNU make.
type Auth struct {
	Jobs int    // of -jN; 0 if it is not given
	fifo string // path of the FIFO; "" for a pipe
	r, w int    // descriptors of the pipe; -1 if they are not open in this process
}

// Parse finds the jobserver in the value of MAKEFLAGS. It must be called before this
// process opens descriptors, which may have the numbers of the closed ones of the pipe.
func Parse(makeflags string) (a Auth, found bool) {
	words, _ := split(makeflags)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "--jobserver-auth" || name == "--jobserver-fds": // the last one counts
			a.fifo, found = strings.CutPrefix(value, "fifo:")
			if a.r, a.w = -1, -1; !found {
				a.fifo = ""
				a.pipe(value)
			}
			found = true
		case strings.HasPrefix(word, "-j"):
			if n, err := strconv.Atoi(word[2:]); err == nil && n > 0 {
				a.Jobs = n
			}
		}
	}
	return a, found
}

// pipe reads the descriptors in R,W if they are the ends of one pipe. Others may have
// the numbers of those that make has closed.
func (a *Auth) pipe(value string) {
	one, other, _ := strings.Cut(value, ",")
	r, err1 := strconv.Atoi(one)
	w, err2 := strconv.Atoi(other)
	if err1 != nil || err2 != nil {
		return
	}
	in, isIn := pipeOf(r, unix.O_WRONLY)
	out, isOut := pipeOf(w, unix.O_RDONLY)
	if isIn && isOut && (!kernel.PipeEndsShareInode || in.Dev == out.Dev && in.Ino == out.Ino) {
		a.r, a.w = r, w
	}
}

// pipeOf returns the pipe that fd is open on, if it is, and not in the given mode alone.
func pipeOf(fd, not int) (st unix.Stat_t, ok bool) {
	if fd <= 2 || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return st, false
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return st, err == nil && mode&unix.O_ACCMODE != not
}

// split returns the words of MAKEFLAGS, and the variables that follow a --.
func split(makeflags string) (words []string, variables string) {
	for rest := strings.Trim(makeflags, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var word string
		if word, rest, _ = strings.Cut(rest, " "); word == "--" {
			return words, strings.TrimLeft(rest, " ")
		}
		words = append(words, word)
	}
	return words, ""
}

// makeflags returns the value of MAKEFLAGS for tasks that share n places at auth: what
// inherited says, without its number of jobs and its jobserver. A pipe is named twice, as
// make before 4.2 calls it otherwise.
func makeflags(inherited, auth string, n int) string {
	words, variables := split(inherited)
	words = slices.DeleteFunc(words, func(w string) bool {
		return strings.HasPrefix(w, "-j") || strings.HasPrefix(w, "--jobserver-")
	})
	where := "--jobserver-auth=" + auth
	if !strings.HasPrefix(auth, "fifo:") {
		where = "--jobserver-fds=" + auth + " " + where
	}
	text := strings.Join(append(words, "-j"+strconv.Itoa(n), where), " ")
	if len(words) == 0 || strings.Contains(words[0], "=") || words[0][0] == '-' {
		text = " " + text // the first word of make's would hold flags of one letter
	}
	if variables != "" {
		text += " -- " + variables
	}
	return text
}
