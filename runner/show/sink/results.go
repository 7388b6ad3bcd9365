package sink

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
	"crew/runner/keep/trust"
)

// resultVersion is the version of the format of result.json.
const resultVersion = 2

// Results writes a directory for each task that has ended. It is the directory for the task's results with
// Named, and otherwise one in it with the task's number. It contains stdout, stderr and result.json of the
// last attempt, and stdout.N and stderr.N of each earlier attempt N. Files of output that was not
// captured are empty.
//
// result.json is written last and atomically: if it exists, the other files are complete. A task
// with the outcome NotRun, or cancelled before it began, has none, and a skipped task keeps its files.
type Results struct {
	Named bool // dirOf differs from task to task, so each needs a Claim
	Fed   bool // tasks are added while the run lasts, and then are new tasks
	Late  bool // tasks have run elsewhere, so a directory of another task fails Consume instead of a Claim

	dir      string // as in the results of dirOf
	resolved string // dir without symbolic links
	dirOf    func(*task.Task) string
	object   object
	buf      bytes.Buffer // for result.json
	claims   claims
}

// OpenResults creates the directory if necessary and checks whether files can be created in it. The
// files of a task stay until a task with the same number ends. dirOf returns the results directory
// of a task, which is dir or below it.
func OpenResults(dir string, dirOf func(*task.Task) string, records Records) (*Results, error) {
	real, err := trust.Resolve(dir)
	if err == nil {
		err = os.MkdirAll(real, 0o777)
	}
	if may := unix.Faccessat(unix.AT_FDCWD, real, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err == nil && may != nil {
		err = &os.PathError{Op: "write to", Path: real, Err: may}
	}
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	return &Results{
		dir: dir, resolved: real, dirOf: dirOf, object: object{records: records},
		claims: claims{seed: maphash.MakeSeed(), by: map[uint64]identity{}},
	}, nil
}

// HoldsResults reports whether dir contains results of an earlier run, directly or up to two levels
// below.
func HoldsResults(dir string) bool {
	tree := os.DirFS(dir)
	for _, beneath := range [...]string{"", "*/", "*/*/"} {
		found, _ := fs.Glob(tree, beneath+"*/result.json")
		for _, path := range found {
			if _, err := readSaved(tree, path); err == nil {
				return true
			}
		}
	}
	return false
}

// Consume writes the files of attempts and tasks that have ended. It stops at the first error.
func (s *Results) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		if s.Named && (e.Task == nil || e.Task.Err != nil) {
			continue
		}
		if e.Kind == task.Retried && !e.Result.Unbegun || e.Kind == task.Finished && mustLog(e) && e.Result.Outcome != task.Skipped {
			var err error
			if s.Late && s.Named {
				err = s.claim(e.Task)
			}
			if err == nil {
				err = s.write(e)
			}
			if err != nil {
				return fmt.Errorf("write results: %w", err) // err names the file
			}
		}
		if e.Kind == task.Finished {
			s.release(e.Task)
		}
	}
	return nil
}

// Sync makes the files durable.
func (s *Results) Sync() error {
	if err := kernel.SyncTree(s.resolved, true); err != nil {
		return fmt.Errorf("write results: %w", &fs.PathError{Op: "sync", Path: s.dir, Err: task.WithoutPath(err)})
	}
	return nil
}

// Close does nothing.
func (s *Results) Close(task.Stats) error { return nil }

// pathOf returns the directory of a task's files.
func (s *Results) pathOf(t *task.Task) string {
	dir := s.dirOf(t)
	if rest, within := strings.CutPrefix(dir, s.dir); within {
		dir = filepath.Join(s.resolved, rest)
	}
	if s.Named {
		return filepath.Clean(dir)
	}
	return filepath.Join(dir, strconv.FormatUint(t.ID, 10))
}

// write writes the files of a retried attempt, or of a task's last attempt.
func (s *Results) write(e *task.Event) error {
	r, dir := e.Result, s.pathOf(e.Task)
	retried, replayed := e.Kind == task.Retried, e.Result.FromEarlierRun()
	n := len(r.Before)
	first := n == 0 || r.Before[n-1].Earlier // first attempt in this run
	if retried {
		first = e.Retries == 0
	}
	if first || replayed {
		// Files of attempts in earlier runs stay, because a replayed result may not have them.
		if err := prepareDir(dir, r.Attempt <= 1); err != nil {
			return err
		}
	}
	if retried {
		return saveBoth(dir, "."+strconv.Itoa(r.Attempt), r)
	}
	if err := saveBoth(dir, "", r); err != nil {
		return err
	}
	return s.writeResultFile(dir, e)
}

// outputNames matches the names of files of outputs. It is compiled only if needed.
var outputNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^std(out|err)(\.[1-9][0-9]*)?$`) })

// prepareDir creates a task's directory, or removes result.json from it. If empty is set, it also
// removes outputs of earlier runs.
func prepareDir(dir string, empty bool) error {
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o777)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := trust.OpenFile(dir, syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer there.Close()
	// Remove it first, because it says that the other files are complete.
	if err := os.Remove(filepath.Join(dir, "result.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !empty {
		return nil
	}
	names, err := there.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if outputNames().MatchString(name) {
			err = cmp.Or(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

func saveBoth(dir, suffix string, r *task.Result) error {
	if err := save(filepath.Join(dir, "stdout"+suffix), r.Stdout); err != nil {
		return err
	}
	return save(filepath.Join(dir, "stderr"+suffix), r.Stderr)
}

// save writes o to a file. It does not follow links of other users. Errors name the file.
func save(path string, o task.Output) error {
	f, err := trust.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	if o != nil {
		_, err = o.WriteTo(f)
	}
	err = cmp.Or(err, f.Close())
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return err
}

// writeResultFile writes result.json: the object of --json, with the version of the format in
// front.
func (s *Results) writeResultFile(dir string, e *task.Event) error {
	s.buf.Reset()
	fmt.Fprintf(&s.buf, `{"version":%d`, resultVersion)
	open := s.buf.Len()
	if err := s.object.write(&s.buf, e.Task, e.Result); err != nil {
		return err
	}
	s.buf.Bytes()[open] = ','
	path := filepath.Join(dir, "result.json")
	if err := save(path+".tmp", spool.Text(s.buf.Bytes())); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
