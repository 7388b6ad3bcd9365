package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner/journal"
	"crew/runner/task"
)

// stateCommand runs "crew state DIR" and returns its exit status.
func stateCommand(args []string, stdout, stderr *os.File) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return complain(stderr, &usageError{
			"crew state takes one directory", "write crew state DIR, or crew -- state for a program of that name",
		})
	}
	err := printState(args[0], stdout)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return complain(stderr, fmt.Errorf("%s holds no journal", args[0]))
	case err != nil:
		return complain(stderr, err)
	}
	return statusOK
}

// printState prints the journal in dir: a summary on a terminal, otherwise JSON
// lines.
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

func stateText(s *journal.Summary) string {
	done := strconv.Itoa(s.Tasks) + " done"
	for o := range task.Outcomes {
		if n := s.ByOutcome[o]; n > 0 {
			done += fmt.Sprintf(", %d %v", n, o)
		}
	}
	if s.Unshown > 0 {
		done += fmt.Sprintf("; %d not shown yet", s.Unshown)
	}
	run, unfinished := "stopped on the way", "interrupted"
	switch {
	case s.Process != "":
		run, unfinished = "running as process "+s.Process, "running"
	case s.Closed:
		run = "ended in good order"
	}
	lines := []string{
		task.Printable(s.Command.Line),
		"in " + task.Printable(s.Command.Dir),
		"begun " + s.Begun.Local().Format(time.DateTime) + ", " + run,
		done,
	}
	if s.Running > 0 {
		lines = append(lines, fmt.Sprintf("%d %s", s.Running, unfinished))
		lines = append(lines, mentions(s.Interrupted, s.Running)...)
	}
	if failed := s.Tasks - s.ByOutcome[task.OK]; failed > 0 {
		lines = append(lines, fmt.Sprintf("%d failed", failed))
		lines = append(lines, mentions(s.Failed, failed)...)
	}
	lines = append(lines, fmt.Sprintf("journal %s, outputs %s", byteCount(s.JournalBytes), byteCount(s.OutputBytes)))
	if s.Damage.Lines > 0 {
		lines = append(lines, fmt.Sprintf("journal %v", s.Damage))
	}
	return strings.Join(lines, "\n") + "\n"
}

// mentions returns a line for each of the first tasks of n, and one for the rest.
func mentions(first []journal.Mention, n int) (lines []string) {
	for _, m := range first {
		how := ""
		after := fmt.Sprintf(" after %v: ", m.Duration.Round(time.Millisecond))
		switch m.Outcome {
		case 0: // not finished
		case task.Exit:
			how = fmt.Sprintf("exit %d", m.Code) + after
		case task.Signal:
			how = fmt.Sprintf("signal %d", m.Signal) + after
		case task.StartFailed:
			how = "not started: "
		default:
			how = m.Outcome.String() + after
		}
		lines = append(lines, "  "+how+task.Printable(m.Command))
	}
	if more := n - len(first); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", more))
	}
	return lines
}

// byteCount returns n as people read it: 2.0 MiB.
func byteCount(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size := float64(n) / (1 << 10)
	units := []string{"KiB", "MiB", "GiB"}
	for size >= 1<<10 && len(units) > 1 {
		size, units = size/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
