package travel

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"crew/runner/decide/task"
)

// Submitter provides the files that a run's attempts take, and fetches those that they return. It is
// safe for concurrent use.
type Submitter struct {
	blobs  *Blobs
	files  Files
	notice func(string)
	base   []File
}

// NewSubmitter returns the Submitter of a run. It fails if a base file cannot be sent; the run must not
// start then.
func NewSubmitter(blobs *Blobs, files Files, notice func(string)) (*Submitter, error) {
	s := &Submitter{blobs: blobs, files: files, notice: notice}
	for _, path := range files.Base {
		f, err := s.put(path)
		if err != nil {
			return nil, fmt.Errorf("send the base file: %w", err)
		}
		f.Base = true
		s.base = append(s.base, f)
	}
	return s, nil
}

// Send makes the files that an attempt of t takes available until Release. It returns them, and the
// paths that the attempt should return in addition to the files that it makes under temporary names. If
// Send fails, the attempt cannot start.
func (s *Submitter) Send(t *task.Task) (take []File, back []string, err error) {
	if s.files.Return != nil {
		back = s.files.Return(t)
	}
	for _, path := range back {
		_, path = splitDot(path)
		if err := checkLocal(path); err != nil {
			return nil, nil, fmt.Errorf("return a file: %w", err)
		}
	}
	for _, temp := range []bool{false, true} {
		for _, path := range t.Makes.Files(temp) {
			if err := checkLocal(path); err != nil {
				return nil, nil, fmt.Errorf("make a file: %w", err)
			}
			if !temp && !slices.Contains(back, path) {
				back = append(back, path)
			}
		}
	}
	if take = slices.Clone(s.base); s.files.Transfer == nil {
		return take, back, nil
	}
	for _, path := range s.files.Transfer(t) {
		f, err := s.put(path)
		if err != nil {
			s.Release(take)
			return nil, nil, fmt.Errorf("send a file: %w", err)
		}
		take = append(take, f)
	}
	return take, back, nil
}

// Release gives up the files that Send returned, once the attempt has ended.
func (s *Submitter) Release(files []File) {
	for _, f := range files {
		if !f.Base {
			s.blobs.Drop(f.Blob)
		}
	}
}

// put makes the content of a file available as a blob.
func (s *Submitter) put(path string) (f File, err error) {
	dir, path := splitDot(path)
	if err = checkLocal(path); err != nil {
		return f, err
	}
	f.Path = filepath.Clean(path)
	in, err := f.read(dir, path, io.Discard)
	if err == nil {
		f.Blob = s.blobs.Add(in, f.Size)
	}
	return f, err
}

// Fetch writes the files of Files.Return that an attempt of t returned on a user's worker. f holds the
// facts of the attempt. If the attempt succeeded, Fetch shows a notice for each missing file. The error
// is ErrNone if the files are no longer available.
func (s *Submitter) Fetch(ctx context.Context, user string, t *task.Task, f *task.Facts, returned []File) error {
	if s.files.Return == nil {
		return nil
	}
	return s.fetch(ctx, user, t, f, returned, s.files.Return(t), false, destination)
}

// FetchMade writes the files that an attempt of t made. The attempt must have succeeded with the facts
// f. Files that were made under a temporary name get a temporary name here, and all others their final
// one. See Fetch.
func (s *Submitter) FetchMade(ctx context.Context, user string, t *task.Task, f *task.Facts, returned []File) error {
	err := s.fetch(ctx, user, t, f, returned, t.Makes.Files(true), true, t.Makes.TempName)
	if err == nil {
		err = s.fetch(ctx, user, t, f, returned, t.Makes.Files(false), false, filepath.Clean)
	}
	return err
}

// fetch writes the returned files that have one of the paths and whose Made equals made. It writes each
// to at(path). It reports missing files, except those that t makes: its result names them.
func (s *Submitter) fetch(ctx context.Context, user string, t *task.Task, f *task.Facts, returned []File, paths []string, made bool, at func(path string) string) error {
	for _, path := range paths {
		i := slices.IndexFunc(returned, func(r File) bool { return r.Path == path && r.Made == made })
		if i < 0 {
			if f.Outcome == task.OK && !slices.Contains(t.Makes.Files(made), path) {
				s.notice(fmt.Sprintf("task %d left no file %s on %s: nothing to return", t.ID, task.Printable(path), f.Host))
			}
			continue
		}
		if err := s.blobs.fetch(ctx, user, returned[i], "", at(path)); err != nil {
			return fmt.Errorf("return %s of task %d from %s: %w", task.Printable(path), t.ID, f.Host, err)
		}
	}
	return nil
}
