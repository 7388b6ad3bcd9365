package sink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// patient writes everything or fails: it goes on after a short write, and waits
// where w is not ready. A stdout that crew shares with another program can be
// made non-blocking by that program at any moment.
type patient struct{ w io.Writer }

// Write writes all of p unless it fails.
func (p patient) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := p.w.Write(b[done:])
		done += n
		switch {
		case errors.Is(err, syscall.EAGAIN):
			if err := awaitWritable(p.w); err != nil {
				return done, err
			}
		case err != nil:
			return done, err
		case n == 0:
			return done, io.ErrNoProgress
		}
	}
	return done, nil
}

// port is stdout or stderr as tasks' output goes there. It is used under the
// Screen's lock alone.
type port struct {
	patient
	stderr bool
	err    error // the first error of stdout: nothing is written after it
	lost   error // the first error of stderr that lost something somebody might have read
}

// Write writes all of p. An error of stdout stays; one of stderr is no reason
// to stop, so the bytes count as written.
func (p *port) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.patient.Write(b)
	if err == nil {
		return len(b), nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if p.stderr {
		nobody := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EBADF) || errors.Is(err, fs.ErrClosed)
		if p.lost == nil && !nobody {
			p.lost = fmt.Errorf("write stderr: %w", err)
		}
		return len(b), nil
	}
	p.err = fmt.Errorf("write stdout: %w", err)
	return n, p.err
}
