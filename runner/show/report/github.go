package report

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"crew/runner/decide/task"
)

// placeTail is how many bytes at the end of an output are searched for a place in the source.
const placeTail = 4 << 10

// Escapes for the data and the properties of workflow commands.
var (
	escapeData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapeProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotation returns the workflow command for a failed task. GitHub shows it, with the last lines of
// output, beside the place in the source that the output names.
func (c *CI) annotation(t *task.Task, r *task.Result) string {
	where := ""
	if file, line, column := c.place(t, r); file != "" {
		where = "file=" + escapeProperty.Replace(file) + ",line=" + line + ","
		if column != "" {
			where += "col=" + column + ","
		}
	}
	title := escapeProperty.Replace(fmt.Sprintf("task %d: %s", t.ID, r.Verdict()))
	tail, _ := r.OutputTail()
	message := escapeData.Replace(strings.Join(append([]string{printable(t, r)}, task.LastLines(tail, ciLines)...), "\n"))
	return fmt.Sprintf("::error %stitle=%s::%s\n", where, title, message)
}

// place returns the first place in a file of the repository that the end of a task's output names, or
// "". The path is relative to the root of the repository.
func (c *CI) place(t *task.Task, r *task.Result) (file, line, column string) {
	var text []byte
	for _, o := range [...]task.Output{r.Stderr, r.Stdout} {
		if o != nil {
			tail, _ := task.Tail(o, placeTail)
			text = append(append(text, tail...), '\n')
		}
	}
	text = append(text, r.Tail...)
	form := regexp.MustCompile(`(?m)^(.*?):(0*[1-9][0-9]*):(?:(0*[1-9][0-9]*):)?`) // path:line: or path:line:column:
	for _, m := range form.FindAllStringSubmatch(string(task.Uncoloured(text)), -1) {
		path := m[1]
		// The path may follow other words.
		for _, p := range [...]string{strings.TrimSpace(path), path[strings.LastIndexAny(path, " \t(\"'")+1:]} {
			if file, ok := c.file(t, p); ok {
				return file, m[2], m[3]
			}
		}
	}
	return "", "", ""
}

// file resolves a path that a task printed and returns it relative to the root of the repository. ok is
// false unless it is a regular file in the repository.
func (c *CI) file(t *task.Task, path string) (string, bool) {
	if path == "" {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmp.Or(t.Dir, c.cfg.Dir), path)
	}
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return "", false
	}
	rel, err := filepath.Rel(cmp.Or(c.cfg.Root, c.cfg.Dir), path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// Log makes the lines around the output of tasks in the log of a CI server. They have a random token,
// so a task cannot forge them.
type Log struct{ token string }

// NewLog returns a Log with a new token.
func NewLog() Log { return Log{rand.Text()} }

// GitHubFence returns a pair of lines between which GitHub Actions ignores workflow commands.
func (l Log) GitHubFence() (stop, resume string) {
	return "::stop-commands::" + l.token + "\n", "::" + l.token + "::\n"
}

// GitHubGroup returns the lines around a block of a task's output in the log of GitHub Actions, which
// ignores workflow commands in it.
func (l Log) GitHubGroup(t *task.Task, r *task.Result, stderr bool) (begin, end string) {
	stop, resume := l.GitHubFence()
	return "::group::" + escapeData.Replace(groupTitle(t, r, stderr)) + "\n" + stop, resume + "::endgroup::\n"
}

// GitLabGroup is like GitHubGroup for GitLab, which shows how long a section took and wants unique
// names. Sections of tasks that succeeded are collapsed.
func (l Log) GitLabGroup(t *task.Task, r *task.Result, stderr bool) (begin, end string) {
	const erase = "\x1b[0K"
	name := fmt.Sprintf("crew_%s_%d", l.token, t.ID)
	if stderr {
		name += "_stderr"
	}
	closed := ""
	if !r.Outcome.Failed() {
		closed = "[collapsed=true]"
	}
	begin = fmt.Sprintf("%ssection_start:%d:%s%s\r%s%s\n", erase, r.Start.Unix(), name, closed, erase, groupTitle(t, r, stderr))
	return begin, fmt.Sprintf("%ssection_end:%d:%s\r%s\n", erase, r.End.Unix(), name, erase)
}

func groupTitle(t *task.Task, r *task.Result, stderr bool) string {
	title := fmt.Sprintf("task %d: %s", t.ID, printable(t, r))
	if stderr {
		title += " (stderr)"
	}
	if r.Outcome.Failed() {
		title += ": " + r.Verdict()
	}
	return title
}
