package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner/journal"
	"crew/runner/task"
)

// printState prints the journal of dir: for people where stdout is a terminal,
// else as JSON lines.
func printState(dir string, stdout *os.File) error {
	if !isatty.IsTerminal(stdout.Fd()) {
		return journal.Dump(dir, stdout)
	}
	s, err := journal.Summarize(dir)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, stateText(s)); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// stateText is a summary as people read it.
func stateText(s *journal.Summary) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", printable(s.Command.Line))
	line("in %s", printable(s.Command.Dir))
	line("%s", lastRun(s))
	text := strconv.Itoa(s.Tasks) + " done"
	for o := range task.Outcomes {
		if n := s.ByOutcome[o]; n > 0 {
			text += fmt.Sprintf(", %d %v", n, o)
		}
	}
	if s.Unshown > 0 {
		text += fmt.Sprintf("; %d not shown yet", s.Unshown)
	}
	line("%s", text)
	if s.Running > 0 {
		what := "interrupted"
		if s.Process != "" {
			what = "running"
		}
		line("%d %s", s.Running, what)
		list(&b, s.Interrupted, s.Running)
	}
	failed := s.Tasks - s.ByOutcome[task.OK]
	if failed > 0 {
		line("%d failed", failed)
		list(&b, s.Failed, failed)
	}
	line("journal %s, outputs %s", bytesText(s.JournalBytes), bytesText(s.OutputBytes))
	if s.Damage.Lines > 0 {
		line("journal %v", s.Damage)
	}
	return b.String()
}

func lastRun(s *journal.Summary) string {
	at := "begun " + s.Begun.Local().Format(time.DateTime)
	switch {
	case s.Process != "":
		return at + ", running as process " + s.Process
	case s.Closed:
		return at + ", ended in good order"
	}
	return at + ", stopped on the way"
}

func list(b *strings.Builder, tasks []journal.Mention, all int) {
	for _, m := range tasks {
		how := ""
		switch m.Outcome {
		case 0:
		case task.Exit:
			how = fmt.Sprintf("exit %d after %v: ", m.Code, m.Duration.Round(time.Millisecond))
		case task.Signal:
			how = fmt.Sprintf("signal %d after %v: ", m.Signal, m.Duration.Round(time.Millisecond))
		case task.StartFailed:
			how = "not started: "
		default:
			how = fmt.Sprintf("%v after %v: ", m.Outcome, m.Duration.Round(time.Millisecond))
		}
		fmt.Fprintf(b, "  %s%s\n", how, printable(m.Command))
	}
	if more := all - len(tasks); more > 0 {
		fmt.Fprintf(b, "  … and %d more\n", more)
	}
}

// printable is s with what is not fit for a terminal escaped.
func printable(s string) string {
	q := strconv.Quote(s)
	if q[1:len(q)-1] == s {
		return s
	}
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

func bytesText(n int64) string {
	for _, u := range [...]struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return strconv.FormatFloat(float64(n)/float64(u.size), 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}
