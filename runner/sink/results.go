package sink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"crew/runner/task"
)

// resultVersion is the version of the format of result.json.
const resultVersion = 1

// Results writes a directory for each task that has ended, named by its number:
// stdout, stderr and result.json of its last attempt, and stdout.N and stderr.N
// of attempt N where another followed. Where nothing was captured the files are
// empty.
//
// result.json comes last and at once, so where it is, the rest is complete. A
// task that never ran because the run ended before it has none.
type Results struct {
	dir     string
	batches bool   // tasks can have several records
	buf     []byte // room for result.json
}

// OpenResults makes the directory where it is missing and tries whether files
// can be made in it. What it holds stays until a task of the same number ends;
// then that task's files are replaced. batches says that tasks can have several
// records.
func OpenResults(dir string, batches bool) (*Results, error) {
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".crew-*"); err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	return &Results{dir: dir, batches: batches}, nil
}

// Consume writes what has ended. The first error ends it.
func (s *Results) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		var err error
		switch {
		case e.Kind == task.Retried:
			err = s.outputs(e, attemptSuffix(e.Result), e.Retries == 0)
		case e.Kind == task.Finished && ran(e):
			if e.Task.Done != nil {
				err = s.earlier(e)
			}
			if err == nil {
				err = s.outputs(e, "", len(e.Result.Before) == 0)
			}
			if err == nil {
				err = s.result(e)
			}
		}
		if err != nil {
			// The errors of os name the file.
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}

// Close does nothing.
func (s *Results) Close(task.Stats) error { return nil }

func (s *Results) path(e *task.Event) string {
	return filepath.Join(s.dir, strconv.FormatUint(e.Task.ID, 10))
}

// outputs writes both streams of an attempt. With the first one of this run the
// directory is begun, though it keeps what attempts of earlier runs have left.
func (s *Results) outputs(e *task.Event, suffix string, first bool) error {
	dir := s.path(e)
	if first {
		if err := begin(dir, e.Result.Attempt <= 1); err != nil {
			return err
		}
	}
	return saveBoth(dir, suffix, e.Result)
}

// earlier begins the directory of a task that an earlier run has finished. All
// that is known of its attempts comes with its end.
func (s *Results) earlier(e *task.Event) error {
	dir := s.path(e)
	err := begin(dir, true)
	for _, b := range e.Result.Before {
		if err == nil {
			err = saveBoth(dir, attemptSuffix(b), b)
		}
	}
	return err
}

// attemptSuffix is what the files of an attempt before the last end with.
func attemptSuffix(r *task.Result) string { return "." + strconv.Itoa(r.Attempt) }

// begin makes a task's directory, without result.json, and if it is to be empty
// without any file of an earlier run.
func begin(dir string, empty bool) error {
	err := os.Mkdir(dir, 0o777)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// It goes first: what it vouches for is about to change.
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

func save(path string, o task.Output) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if o != nil {
		_, err = o.WriteTo(f)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return err
}

// result writes result.json, the object of --json after the format's version,
// under another name and then gives it its own.
func (s *Results) result(e *task.Event) error {
	text := append(s.buf[:0], `{"version":`...)
	text = strconv.AppendInt(text, resultVersion, 10)
	open := len(text)
	text = appendFacts(text, e.Task, e.Result, s.batches)
	for i, b := range e.Result.Before {
		text = append(appendAttempt(text, i, b), '}')
	}
	if len(e.Result.Before) > 0 {
		text = append(text, ']')
	}
	text = append(text, "}\n"...)
	text[open] = ','
	s.buf = text
	path := filepath.Join(s.path(e), "result.json")
	if err := os.WriteFile(path+".tmp", text, 0o666); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
