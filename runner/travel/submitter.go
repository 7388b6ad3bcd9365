package travel

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sync"

	"crew/runner/task"
)

// Submitter has the files that a run's attempts take, and fetches those that they bring
// back. It is safe for concurrent use.
type Submitter struct {
	blobs  *Blobs
	files  Files
	notice func(string)
	base   []File

	mu   sync.Mutex
	sent map[[sha256.Size]byte]*sent // by content
}

// sent is content that attempts take.
type sent struct {
	Blob
	uses int
}

// NewSubmitter returns the Submitter of a run.
func NewSubmitter(blobs *Blobs, files Files, notice func(string)) (*Submitter, error) {
	c := &Submitter{blobs: blobs, files: files, notice: notice, sent: map[[sha256.Size]byte]*sent{}}
	for _, path := range files.Base {
		f, err := c.put(path)
		if err != nil {
			c.Release(c.base)
			return nil, fmt.Errorf("send the base file: %w", err)
		}
		c.base = append(c.base, f)
	}
	return c, nil
}

// Send has the files be there that an attempt of t takes, until Release. It returns them, and the paths
// of those that the attempt is to bring back beside what it makes under temporary names. If it fails,
// the attempt cannot start.
func (c *Submitter) Send(t *task.Task) (take []File, back []string, err error) {
	if c.files.Return != nil {
		back = c.files.Return(t)
	}
	for _, path := range back {
		if _, err := inside(path); err != nil {
			return nil, nil, fmt.Errorf("return a file: %w", err)
		}
	}
	own := t.Makes.Files(false)
	for _, path := range slices.Concat(own, t.Makes.Files(true)) {
		if err := local(path); err != nil {
			return nil, nil, fmt.Errorf("make a file: %w", err)
		}
	}
	for _, path := range own {
		if !slices.Contains(back, path) {
			back = append(back, path)
		}
	}
	for _, f := range c.base {
		f.Base = true
		take = append(take, f)
	}
	if c.files.Transfer == nil {
		return take, back, nil
	}
	for _, path := range c.files.Transfer(t) {
		f, err := c.put(path)
		if err != nil {
			c.Release(take)
			return nil, nil, fmt.Errorf("send a file: %w", err)
		}
		take = append(take, f)
	}
	return take, back, nil
}

// Release gives up files that an attempt has taken. It has ended.
func (c *Submitter) Release(files []File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range files {
		if p := c.sent[f.Sum]; !f.Base {
			if p.uses--; p.uses == 0 {
				delete(c.sent, f.Sum)
				c.blobs.Drop(p.Blob)
			}
		}
	}
}

// put has a file be a blob, unless the same content is one.
func (c *Submitter) put(path string) (f File, err error) {
	if f.Path, err = inside(path); err != nil {
		return f, err
	}
	in, mode, err := openRegular(split(path))
	if err != nil {
		return f, err
	}
	f.Mode = mode
	if f.Sum, f.Size, err = sumOf(in); err != nil {
		in.Close()
		return f, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.sent[f.Sum]
	if p != nil {
		in.Close()
	} else {
		p = &sent{}
		if p.Blob, err = c.blobs.Keep(in, f.Size); err != nil {
			return f, err
		}
		c.sent[f.Sum] = p
	}
	p.uses++
	f.Blob = p.Blob
	return f, nil
}

// Fetch writes the files of Files.Return that an attempt of t has brought back to a user's worker, and
// whose facts are f. It says which are missing although the attempt has succeeded. The error is ErrNone
// if they cannot be had any more.
func (c *Submitter) Fetch(ctx context.Context, user string, t *task.Task, f *task.Facts, returned []File) error {
	if c.files.Return == nil {
		return nil
	}
	return c.fetch(f, t, returned, c.files.Return(t), false, func(path string, file File) error {
		to, err := inside(path)
		if err != nil {
			return err
		}
		return replace("", to, file.Mode, func(w io.Writer) error { return c.blobs.pull(ctx, user, file, w) })
	})
}

// FetchMade writes what an attempt of t, which has succeeded with the facts f, has made: what
// has a temporary name here to that, where it need not be whole after an error, and the rest to
// where it belongs. See Fetch.
func (c *Submitter) FetchMade(ctx context.Context, user string, t *task.Task, f *task.Facts, returned []File) error {
	err := c.fetch(f, t, returned, t.Makes.Files(true), true, func(path string, file File) error {
		return write(t.Makes.TempName(path), file.Mode, func(w io.Writer) error { return c.blobs.pull(ctx, user, file, w) })
	})
	if err != nil {
		return err
	}
	return c.fetch(f, t, returned, t.Makes.Files(false), false, func(path string, file File) error {
		return replace("", path, file.Mode, func(w io.Writer) error { return c.blobs.pull(ctx, user, file, w) })
	})
}

// fetch has take write the files among returned that have these paths, and were made under temporary
// names or not. Of what was made so, whoever gives the names says what is missing.
func (c *Submitter) fetch(f *task.Facts, t *task.Task, returned []File, paths []string, made bool, take func(path string, file File) error) error {
	for _, path := range paths {
		i := slices.IndexFunc(returned, func(r File) bool { return r.Path == path && r.Made == made })
		if i >= 0 {
			if err := take(path, returned[i]); err != nil {
				return fmt.Errorf("return %s of task %d from %s: %w", task.Printable(path), t.ID, f.Host, err)
			}
		} else if !made && f.Outcome == task.OK {
			c.notice(fmt.Sprintf("task %d has left no file %s on %s: nothing is returned", t.ID, task.Printable(path), f.Host))
		}
	}
	return nil
}
