package journal

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"crew/runner/task"
)

// Dump writes the good lines of a directory's journal to w, without their checksums.
// A run may be writing the journal meanwhile. If lines are damaged, Dump writes all
// good ones and then returns an error. Without a journal the error is fs.ErrNotExist.
func Dump(dir string, w io.Writer) error {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := readHead(f, f.Name()); err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	s, err := scan(f, func(ln line) {
		_, _ = out.Write(ln.body)
		_, _ = out.WriteString("}\n")
	})
	err = cmp.Or(err, out.Flush())
	if err == nil && s.damage.Lines > 0 {
		err = fmt.Errorf("%s: %v", f.Name(), s.damage)
	}
	return err
}

// Summary describes a journal.
type Summary struct {
	Command Command
	Begun   time.Time // when the latest run began
	Process string    // ID of the process of a run that goes on now; empty if none
	Closed  bool      // the latest run ended normally

	Tasks     int // tasks that are done
	ByOutcome [task.Outcomes]int
	Unshown   int // tasks that are done but not shown

	Failed      []Mention // the first few tasks that failed
	Interrupted []Mention // a few of the tasks that are running, or were when the run stopped
	Running     int       // number of the latter

	JournalBytes, OutputBytes int64
	Damage                    Damage
}

// Mention describes a task in a few words.
type Mention struct {
	Outcome      task.Outcome // 0 if it has none yet
	Code, Signal int
	Duration     time.Duration
	Command      string
}

// maxMentions is how many tasks are mentioned in a list.
const maxMentions = 10

// Summarize reads the journal of a directory. A run may be writing it meanwhile.
// Without a journal the error is fs.ErrNotExist.
func Summarize(dir string) (*Summary, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := loadFile(f)
	if err != nil {
		return nil, err
	}
	defer l.table.close()
	s := &Summary{
		Command: Command{l.head.Command, l.head.Dir}, Process: process(dir), Closed: l.closed,
		Tasks: l.tasks, Running: len(l.running), JournalBytes: l.scanned.end, OutputBytes: l.outputs,
		Damage: l.scanned.damage,
	}
	if run, _, err := readRecord(f, l.run); err == nil {
		s.Begun = run.At
	}
	for e := range l.table.all {
		if !e.has(done) {
			continue
		}
		s.ByOutcome[e.outcome]++
		if !e.has(shown) {
			s.Unshown++
		}
		if e.outcome.Failed() && len(s.Failed) < maxMentions {
			s.Failed = append(s.Failed, mention(f, e.offset()))
		}
	}
	for _, off := range l.running {
		if len(s.Interrupted) == maxMentions {
			break
		}
		s.Interrupted = append(s.Interrupted, mention(f, off))
	}
	return s, nil
}

// process returns the ID of the process that holds the lock of dir, or "".
func process(dir string) string {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return ""
	}
	defer f.Close()
	pid, held := lockHolder(f)
	if !held {
		return ""
	}
	return strconv.Itoa(pid)
}

// mention describes the task that the line at off is about.
func mention(f io.ReaderAt, off int64) Mention {
	r, _, err := readRecord(f, off)
	if err != nil {
		return Mention{}
	}
	outcome, _ := parseOutcome(r.Outcome)
	return Mention{
		Outcome: outcome, Code: r.Exit, Signal: r.Signal, Duration: seconds(r.Duration), Command: r.Command,
	}
}
