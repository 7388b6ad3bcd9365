package journal

import (
	"encoding/hex"
	"path/filepath"
	"time"

	"crew/runner/decide/task"
)

// maxCommandLine limits the bytes of the command line in the first line.
const maxCommandLine = 4000

// Command describes the command of a run.
type Command struct {
	Line string // the part of the command line that determines the tasks
	Dir  string // the working directory of the tasks

	// Programs lists the files that the command runs. Each element is a fingerprint, a space and
	// the path. The fingerprint changes with the file. Programs do not affect the identities of
	// tasks.
	Programs []string
}

// sum returns a hash of the whole command.
func (c Command) sum() string {
	h := hasher{}
	h.text(c.Line)
	h.text(c.Dir)
	id := h.sum()
	return hex.EncodeToString(id[:])
}

// matches reports whether a journal with this first line belongs to c. The directory may have been moved
// since, with a symbolic link left in its place.
func (c Command) matches(head *record) bool {
	if dir, err := filepath.EvalSymlinks(string(head.Dir)); err == nil && dir == c.Dir {
		c.Dir = string(head.Dir)
	}
	return head.Sum == c.sum()
}

// firstLine returns the first line of a journal. queue is the ID of a queue, or 0, and last is the
// highest task number used in it. outputs is the number of the file of outputs.
func firstLine(c Command, queue int64, last uint64, outputs int64, now time.Time) []byte {
	b := beginLine(nil, evJournal)
	b = task.AppendInt(b, "version", version)
	b = task.AppendTime(b, "created", now)
	b = task.AppendText(b, "command", task.Shorten(c.Line, maxCommandLine))
	b = task.AppendText(b, "sum", c.sum())
	b = task.AppendText(b, "dir", c.Dir)
	b = task.AppendInt(b, "outputs", outputs)
	if queue > 0 {
		b = task.AppendInt(b, "queue", queue)
		b = task.AppendInt(b, "last", int64(last))
	}
	return seal(b, 0)
}
