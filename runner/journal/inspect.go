package journal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"crew/runner/task"
)

// Dump writes the good lines of a directory's journal without their sums. The
// run that writes the journal may go on meanwhile. Damage is an error, told
// after all that is good; a directory without a journal is fs.ErrNotExist.
func Dump(dir string, w io.Writer) error {
	f, _, err := inspect(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(w, 64<<10)
	s, err := scan(f, func(ln line) {
		_, _ = out.Write(ln.body)
		_, _ = out.WriteString("}\n")
	})
	if e := out.Flush(); err == nil {
		err = e
	}
	if err == nil && s.damage.Lines > 0 {
		err = fmt.Errorf("%s: %v", f.Name(), s.damage)
	}
	return err
}

// inspect opens a journal that somebody else may be writing.
func inspect(dir string) (*os.File, *record, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return nil, nil, err
	}
	head, err := readHead(f, f.Name())
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, head, nil
}

// Summary is what is to be said about a journal.
type Summary struct {
	Command Command
	Begun   time.Time // the latest run
	Process string    // of the run that goes on now; empty where none does
	Closed  bool      // the latest run ended in good order

	Tasks     int // that are done
	ByOutcome [task.Outcomes]int
	Unshown   int // done, but not shown yet

	Failed      []Mention // the first of them
	Interrupted []Mention // running when the run was stopped, or now; the first of them
	Running     int       // how many these are

	JournalBytes, OutputBytes int64
	Damage                    Damage
}

// Mention is a task in a summary.
type Mention struct {
	Outcome      task.Outcome // 0 where it has none yet
	Code, Signal int
	Duration     time.Duration
	Command      string
}

// mentions is how many tasks of a kind a summary names.
const mentions = 10

// Summarize reads the journal of a directory, which may be written meanwhile. A
// directory without one is fs.ErrNotExist.
func Summarize(dir string) (*Summary, error) {
	f, _, err := inspect(dir)
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
		Command: Command{l.head.Command, l.head.Dir}, Process: holder(dir), Closed: l.closed,
		Tasks: l.tasks, Running: len(l.running), JournalBytes: l.scanned.end, OutputBytes: l.outputs,
		Damage: l.scanned.damage,
	}
	if run := recordAt(f, l.last.at); run != nil {
		s.Begun = run.At
	}
	l.table.all(func(e *entry) {
		if !e.has(done) {
			return
		}
		s.ByOutcome[e.outcome]++
		if !e.has(shown) {
			s.Unshown++
		}
		if e.outcome.Failed() && len(s.Failed) < mentions {
			s.Failed = append(s.Failed, mention(f, e.at()))
		}
	})
	for _, at := range l.running {
		if len(s.Interrupted) < mentions {
			s.Interrupted = append(s.Interrupted, mention(f, at))
		}
	}
	return s, nil
}

func recordAt(f io.ReaderAt, at int64) *record {
	body, _, err := readLine(f, at)
	if err != nil {
		return nil
	}
	r, err := parse(body)
	if err != nil {
		return nil
	}
	return r
}

func mention(f io.ReaderAt, at int64) Mention {
	r := recordAt(f, at)
	if r == nil {
		return Mention{}
	}
	outcome, _ := outcomeOf([]byte(r.Outcome))
	return Mention{
		Outcome: outcome, Code: r.Exit, Signal: r.Signal, Duration: seconds(r.Duration), Command: r.Command,
	}
}
