package travel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"crew/runner/task"
)

// Submitter sends the files that a run's attempts take, and fetches those that they bring
// back. It is safe for concurrent use.
type Submitter struct {
	store  *Store
	run    string
	files  Files
	notice func(string)
	base   []File // sent already

	mu   sync.Mutex
	sent map[[sha256.Size]byte]*sentObject // by content
}

// sentObject is an object that attempts take. What no attempt takes any more is removed,
// so the same content gets another name later.
type sentObject struct {
	name string
	seal Seal
	uses int // attempts that need it; under Submitter.mu

	mu   sync.Mutex // held while it is sent
	sent bool
}

// NewSubmitter returns the Submitter of a run once it has sent the base files.
func NewSubmitter(ctx context.Context, store *Store, run string, files Files, notice func(string)) (*Submitter, error) {
	c := &Submitter{store: store, run: run, files: files, notice: notice, sent: map[[sha256.Size]byte]*sentObject{}}
	if err := store.open(ctx); err != nil {
		return nil, err
	}
	for _, path := range files.Base {
		f, err := c.put(ctx, path)
		if err != nil {
			c.Abort()
			return nil, fmt.Errorf("send the base file: %w", err)
		}
		f.Base = true
		c.base = append(c.base, f)
	}
	return c, nil
}

// Abort removes what NewSubmitter has sent. Results of earlier epochs may need the rest.
func (c *Submitter) Abort() {
	for _, f := range c.base {
		c.store.Remove(context.Background(), f.Object)
	}
}

// Send sends the files that an attempt of t takes. It returns them, and the paths of those
// that the attempt is to bring back beside what it makes under temporary names. If it fails,
// the attempt cannot start.
func (c *Submitter) Send(ctx context.Context, t *task.Task) (take []File, back []string, err error) {
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
	take = c.base[:len(c.base):len(c.base)]
	if c.files.Transfer == nil {
		return take, back, nil
	}
	for _, path := range c.files.Transfer(t) {
		f, err := c.put(ctx, path)
		if err != nil {
			c.Release(take)
			return nil, nil, fmt.Errorf("send a file: %w", err)
		}
		take = append(take, f)
	}
	return take, back, nil
}

// Release removes the objects of files that an attempt has taken, unless others take
// them. The attempt has ended.
func (c *Submitter) Release(files []File) {
	for _, f := range files {
		if f.Base {
			continue
		}
		c.mu.Lock()
		p := c.sent[f.Sum]
		if p.uses--; p.uses == 0 {
			delete(c.sent, f.Sum)
		}
		last := p.uses == 0
		c.mu.Unlock()
		if last && p.sent {
			c.store.Remove(context.Background(), p.name)
		}
	}
}

// put sends a file unless another attempt has sent the same content.
func (c *Submitter) put(ctx context.Context, path string) (File, error) {
	to, err := inside(path)
	if err != nil {
		return File{}, err
	}
	in, mode, err := openRegular(split(path))
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	seal, err := NewSeal(in)
	if err != nil {
		return File{}, err
	}
	c.mu.Lock()
	p := c.sent[seal.Sum]
	if p == nil {
		p = &sentObject{seal: seal}
		c.sent[seal.Sum] = p
	}
	p.uses++
	c.mu.Unlock()
	p.mu.Lock()
	if !p.sent {
		p.name, err = c.store.Put(ctx, c.run, &p.seal, in)
		p.sent = err == nil
	}
	f := File{Path: to, Object: p.name, Mode: mode, Seal: p.seal}
	p.mu.Unlock()
	if err != nil {
		c.Release([]File{f})
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Fetch writes the files of Files.Return that an attempt of t has brought back, whose facts are
// f. It says which are missing although the attempt has succeeded.
func (c *Submitter) Fetch(ctx context.Context, t *task.Task, f *task.Facts, returned []File) error {
	if c.files.Return == nil {
		return nil
	}
	return c.fetch(ctx, t, f, returned, nil, c.files.Return(t), func(path string, file File) error {
		to, err := inside(path)
		if err == nil {
			err = c.store.write(ctx, "", to, file)
		}
		if _, missing := os.Lstat(to); errors.Is(err, ErrNone) && missing == nil {
			return nil // a submitter that was killed before it could record the result has fetched it
		}
		return err
	})
}

// FetchMade writes what an attempt of t, which has succeeded with the facts f, has made: what
// has a temporary name here to that, where it need not be whole after an error, and the rest to
// where it belongs. The error is ErrGone if that cannot be had any more.
func (c *Submitter) FetchMade(ctx context.Context, t *task.Task, f *task.Facts, returned []File) error {
	err := c.fetch(ctx, t, f, returned, t.Makes.Files(true), t.Makes.Files(false), func(path string, file File) error {
		if !file.Made {
			return c.store.write(ctx, "", path, file)
		}
		return c.store.Get(ctx, file.Object, &file.Seal, func(r io.Reader) error { return write(t.Makes.TempName(path), file.Mode, r) })
	})
	if errors.Is(err, ErrNone) {
		err = ErrGone
	}
	return err
}

// ErrGone is the error of FetchMade if a submitter that was killed has fetched the files.
var ErrGone = errors.New("what it has made is gone")

// fetch has take write the files among returned that were made under temporary names, at the paths
// in made, and then those at the other paths. It says which of these are missing although the
// attempt has succeeded.
func (c *Submitter) fetch(
	ctx context.Context, t *task.Task, f *task.Facts, returned []File, made, others []string, take func(path string, file File) error,
) error {
	var objects []string
	for n, path := range slices.Concat(made, others) {
		temp := n < len(made)
		i := slices.IndexFunc(returned, func(r File) bool { return r.Path == path && r.Made == temp })
		if i >= 0 {
			if err := take(path, returned[i]); err != nil {
				return fmt.Errorf("return %s of task %d from %s: %w", task.Printable(path), t.ID, f.Host, err)
			}
			objects = append(objects, returned[i].Object)
		} else if !temp && f.Outcome == task.OK { // of the others, whoever gives names says so
			c.notice(fmt.Sprintf("task %d has left no file %s on %s: nothing is returned", t.ID, task.Printable(path), f.Host))
		}
	}
	for _, name := range objects { // not earlier: after an error all are fetched again
		c.store.Remove(ctx, name)
	}
	return nil
}

// Close removes what is left of the run's objects.
func (c *Submitter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	_ = c.store.RemoveAll(ctx, c.run)
}
