package travel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

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
	last int                               // number of the latest object
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
		c.last++
		p = &sentObject{name: c.run + "." + strconv.Itoa(c.last), seal: seal}
		c.sent[seal.Sum] = p
	}
	p.uses++
	c.mu.Unlock()
	f := File{Path: to, Object: p.name, Mode: mode, Seal: p.seal}
	p.mu.Lock()
	if !p.sent {
		err = c.store.Put(ctx, p.name, p.seal.Closed(in))
		p.sent = err == nil
	}
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
	brought, fetched := byPath(returned, false), []File(nil)
	for _, path := range c.files.Return(t) {
		file, ok := brought[path]
		if !ok {
			c.missing(t, f, path)
			continue
		}
		to, err := inside(path)
		if err == nil {
			err = c.store.write(ctx, "", to, file)
		}
		if _, missing := os.Lstat(to); errors.Is(err, jetstream.ErrObjectNotFound) && missing == nil {
			continue // a submitter that was killed before it could record the result has fetched it
		}
		if err != nil {
			return notReturned(t, f, path, err)
		}
		fetched = append(fetched, file)
	}
	c.remove(ctx, fetched) // not earlier: after an error all are fetched again
	return nil
}

// FetchMade writes what an attempt of t, which has succeeded with the facts f, has made: what
// has a temporary name here to that, where it need not be whole after an error, and the rest to
// where it belongs. The error is ErrGone if that cannot be had any more.
func (c *Submitter) FetchMade(ctx context.Context, t *task.Task, f *task.Facts, returned []File) error {
	var fetched []File
	for _, temp := range [...]bool{true, false} {
		brought := byPath(returned, temp)
		for _, path := range t.Makes.Files(temp) {
			file, ok := brought[path]
			var err error
			switch {
			case ok && temp:
				err = c.store.Get(ctx, file.Object, func(r io.Reader) error { return write(t.Makes.TempName(path), file.Mode, file.Opened(r)) })
			case ok:
				err = c.store.write(ctx, "", path, file)
			case !temp: // or else whoever gives names says so
				c.missing(t, f, path)
			}
			if errors.Is(err, jetstream.ErrObjectNotFound) {
				return ErrGone
			}
			if err != nil {
				return notReturned(t, f, path, err)
			}
			fetched = append(fetched, file)
		}
	}
	c.remove(ctx, fetched)
	return nil
}

// ErrGone is the error of FetchMade if a submitter that was killed has fetched the files.
var ErrGone = errors.New("what it has made is gone")

// byPath returns the files that were made under temporary names, or the others.
func byPath(returned []File, made bool) map[string]File {
	files := map[string]File{}
	for _, file := range returned {
		if file.Made == made {
			files[file.Path] = file
		}
	}
	return files
}

// missing says that an attempt has not left a file, if it has succeeded.
func (c *Submitter) missing(t *task.Task, f *task.Facts, path string) {
	if f.Outcome == task.OK {
		c.notice(fmt.Sprintf("task %d has left no file %s on %s: nothing is returned", t.ID, task.Printable(path), f.Host))
	}
}

func notReturned(t *task.Task, f *task.Facts, path string, err error) error {
	return fmt.Errorf("return %s of task %d from %s: %w", task.Printable(path), t.ID, f.Host, err)
}

// remove removes the objects of files.
func (c *Submitter) remove(ctx context.Context, files []File) {
	for _, file := range files {
		if file.Object != "" {
			c.store.Remove(ctx, file.Object)
		}
	}
}

// Close removes what is left of the run's objects.
func (c *Submitter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	_ = c.store.RemoveAll(ctx, func(name string) bool { return strings.HasPrefix(name, c.run+".") })
}
