package jobserver

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// Auth locates the tokens of a jobserver, as read from the variable MAKEFLAGS. See "POSIX Jobserver
// Interaction" in the manual of GNU make.
type Auth struct {
	Jobs int    // N of -jN; 0 if there is none
	fifo string // path of the FIFO; "" for a pipe
	r, w int    // descriptors of the pipe; -1 if they are not open in this process
}

// Parse finds the jobserver in the value of MAKEFLAGS. It must be called before this process opens any
// descriptors: they could get the numbers of pipe ends that make has closed.
func Parse(makeflags string) (a Auth, found bool) {
	words, _ := split(makeflags)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "--jobserver-auth" || name == "--jobserver-fds": // the last option wins
			a.fifo, found = strings.CutPrefix(value, "fifo:")
			if a.r, a.w = -1, -1; !found {
				a.fifo = ""
				a.setPipe(value)
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

// setPipe parses R,W and stores the descriptors if they are the two ends of one pipe. Otherwise make
// has closed them, and other files may have their numbers.
func (a *Auth) setPipe(value string) {
	one, other, _ := strings.Cut(value, ",")
	r, err1 := strconv.Atoi(one)
	w, err2 := strconv.Atoi(other)
	if err1 != nil || err2 != nil {
		return
	}
	in, isIn := statPipe(r, unix.O_WRONLY)
	out, isOut := statPipe(w, unix.O_RDONLY)
	if isIn && isOut && (!kernel.PipeEndsShareInode || in.Dev == out.Dev && in.Ino == out.Ino) {
		a.r, a.w = r, w
	}
}

// statPipe returns the status of fd. ok is false if fd is not a pipe, or has the given access mode.
func statPipe(fd, not int) (st unix.Stat_t, ok bool) {
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

// makeflags returns the value of MAKEFLAGS for tasks that share n places at auth: inherited without its
// number of jobs and its jobserver. A pipe gets two options, because make before 4.2 uses another name.
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
		text = " " + text // make takes a first word without a dash for single-letter flags
	}
	if variables != "" {
		text += " -- " + variables
	}
	return text
}
