package sink

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"crew/runner/spool"
	"crew/runner/task"
)

// resultVersion is the version of the format of result.json.
const resultVersion = 1

// Results writes a directory for each task that has ended, named by its number
// beneath the directory for its results.
// The directory holds stdout, stderr and result.json of the last attempt, and
// stdout.N and stderr.N of each attempt N before it. Files of output that was not
// captured are empty.
//
// result.json is written last and atomically: if it exists, the rest is complete.
// A task that never ran because the run ended before it has none.
type Results struct {
	of     func(*task.Task) string
	object object
	buf    bytes.Buffer // for result.json
}

// OpenResults creates the directory if it is missing and tries whether files can
// be created in it. Existing files stay until a task of the same number ends,
// whose files replace them. of returns a task's directory, which is dir or beneath it.
func OpenResults(dir string, of func(*task.Task) string, records Records) (*Results, error) {
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var f *os.File
		if f, err = spool.Unnamed(dir); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	return &Results{of: of, object: object{records: records}}, nil
}

// Consume writes the files of attempts and tasks that have ended. It stops at the
// first error.
func (s *Results) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		if e.Kind == task.Retried && !e.Result.Unbegun || e.Kind == task.Finished && ran(e) {
			if err := s.write(e); err != nil {
				return fmt.Errorf("write results: %w", err) // err names the file
			}
		}
	}
	return nil
}

// Close does nothing.
func (s *Results) Close(task.Stats) error { return nil }

// write writes the files of an attempt that was retried, or of a task's last one.
func (s *Results) write(e *task.Event) error {
	r, dir := e.Result, filepath.Join(s.of(e.Task), strconv.FormatUint(e.Task.ID, 10))
	retried, replayed := e.Kind == task.Retried, e.Task.Done != nil
	first := len(r.Before) == 0 // of the task's attempts in this run
	if retried {
		first = e.Retries == 0
	}
	if first || replayed {
		// Files of attempts in earlier runs stay: a replayed result may not bring them.
		if err := begin(dir, r.Attempt <= 1); err != nil {
			return err
		}
	}
	if replayed {
		for _, b := range r.Before {
			if err := saveBoth(dir, attemptSuffix(b), b); err != nil {
				return err
			}
		}
	}
	if retried {
		return saveBoth(dir, attemptSuffix(r), r)
	}
	if err := saveBoth(dir, "", r); err != nil {
		return err
	}
	return s.result(dir, e)
}

// attemptSuffix returns how the file names of an attempt before the last end.
func attemptSuffix(r *task.Result) string { return "." + strconv.Itoa(r.Attempt) }

// begin makes a task's directory, or removes result.json from it. If empty is
// true it also removes the outputs of an earlier run.
func begin(dir string, empty bool) error {
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o777)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// It goes first, as the files that it vouches for are about to change.
	if err := os.Remove(filepath.Join(dir, "result.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !empty {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range entries {
		if !strings.HasPrefix(f.Name(), "stdout") && !strings.HasPrefix(f.Name(), "stderr") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func saveBoth(dir, suffix string, r *task.Result) error {
	if err := save(filepath.Join(dir, "stdout"+suffix), r.Stdout); err != nil {
		return err
	}
	return save(filepath.Join(dir, "stderr"+suffix), r.Stderr)
}

// save writes o to a file. Its errors name the file.
func save(path string, o task.Output) error {
	f, err := os.Create(path)
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

// result writes result.json: the object of --json with the version of the format
// in front.
func (s *Results) result(dir string, e *task.Event) error {
	s.buf.Reset()
	fmt.Fprintf(&s.buf, `{"version":%d`, resultVersion)
	open := s.buf.Len()
	if err := s.object.write(&s.buf, e.Task, e.Result); err != nil {
		return err
	}
	s.buf.Bytes()[open] = ','
	path := filepath.Join(dir, "result.json")
	if err := os.WriteFile(path+".tmp", s.buf.Bytes(), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
