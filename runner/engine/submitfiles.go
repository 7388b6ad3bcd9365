package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/task"
	"crew/runner/wiring"
)

// Files travel as objects: those that tasks take are named by the run and their
// content, so that each is sent once; those that tasks bring back by their attempt.

// runFiles sends the files that a run's attempts take, and fetches those that they bring
// back. It is safe for concurrent use.
type runFiles struct {
	s       *session
	objects objects
	run     string
	files   wiring.Files
	notice  func(string)
	base    []File // sent already

	mu   sync.Mutex
	sent map[string]*sentObject // by content
	last int                    // number of the latest object
}

// sentObject is an object that attempts take. What no attempt takes any more is removed,
// so the same content gets another name later.
type sentObject struct {
	name string
	uses int // attempts that need it; under runFiles.mu

	mu   sync.Mutex // held while it is sent
	sent bool
}

// newRunFiles returns a runFiles, once it has sent the base files.
func newRunFiles(ctx context.Context, s *session, run string, files wiring.Files, notice func(string)) (*runFiles, error) {
	c := &runFiles{s: s, run: run, files: files, notice: notice, sent: map[string]*sentObject{}}
	var err error
	if c.objects, err = s.objects(ctx); err != nil {
		return nil, err
	}
	for _, path := range files.Base {
		f, err := c.put(ctx, path)
		if err != nil {
			c.abort()
			return nil, fmt.Errorf("send the base file: %w", err)
		}
		f.Base = true
		c.base = append(c.base, f)
	}
	return c, nil
}

// abort removes what newRunFiles has sent. Results of earlier epochs may need the rest.
func (c *runFiles) abort() {
	for _, f := range c.base {
		c.objects.remove(context.Background(), f.Object)
	}
}

// send sends the files that an attempt takes and names them in its message, with those
// that it is to bring back. If it fails, the attempt cannot start.
func (c *runFiles) send(ctx context.Context, a task.Attempt, to *Attempt) error {
	to.Take, to.Cleanup = c.base[:len(c.base):len(c.base)], c.files.Cleanup
	if c.files.Return != nil {
		to.Return = c.files.Return(a.Task)
		for _, path := range to.Return {
			if _, err := inside(path); err != nil {
				return fmt.Errorf("return a file: %w", err)
			}
		}
	}
	if c.files.Transfer == nil {
		return nil
	}
	for _, path := range c.files.Transfer(a.Task) {
		f, err := c.put(ctx, path)
		if err != nil {
			c.release(to.Take)
			return fmt.Errorf("send a file: %w", err)
		}
		to.Take = append(to.Take, f)
	}
	return nil
}

// release removes the objects of files that an attempt has taken, unless others take
// them. The attempt has ended.
func (c *runFiles) release(files []File) {
	for _, f := range files {
		if f.Base {
			continue
		}
		sum := filepath.Ext(f.Object)
		c.mu.Lock()
		p := c.sent[sum]
		if p.uses--; p.uses == 0 {
			delete(c.sent, sum)
		}
		last := p.uses == 0
		c.mu.Unlock()
		if last && p.sent {
			c.objects.remove(context.Background(), p.name)
		}
	}
}

// put sends a file unless another attempt has sent the same content.
func (c *runFiles) put(ctx context.Context, path string) (File, error) {
	to, err := inside(path)
	if err != nil {
		return File{}, err
	}
	in, mode, err := openRegular(path)
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	sum, err := contentOf(in)
	if err != nil {
		return File{}, err
	}
	c.mu.Lock()
	p := c.sent[sum]
	if p == nil {
		c.last++
		p = &sentObject{name: c.run + "." + strconv.Itoa(c.last) + sum}
		c.sent[sum] = p
	}
	p.uses++
	c.mu.Unlock()
	f := File{Path: to, Object: p.name, Mode: mode}
	p.mu.Lock()
	if !p.sent {
		err = c.objects.put(ctx, p.name, in)
		p.sent = err == nil
	}
	p.mu.Unlock()
	if err != nil {
		c.release([]File{f})
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// contentOf returns the SHA-256 of a file, in hexadecimal behind a dot. With it end the
// names of objects.
func contentOf(file *os.File) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, file)
	return "." + hex.EncodeToString(h.Sum(nil)), err
}

// fetch writes the files that an attempt of t has brought back. It says which are
// missing although the attempt has succeeded.
func (c *runFiles) fetch(ctx context.Context, t *task.Task, f *Final) error {
	if c.files.Return == nil {
		return nil
	}
	brought, fetched := map[string]File{}, []string(nil)
	for _, file := range f.Returned {
		brought[file.Path] = file
	}
	for _, path := range c.files.Return(t) {
		file, ok := brought[path]
		if !ok {
			if f.Outcome == task.OK {
				c.notice(fmt.Sprintf("task %d has left no file %s on %s: nothing is returned", t.ID, task.Printable(path), f.Host))
			}
			continue
		}
		to, err := inside(path)
		if err == nil {
			err = c.objects.write(ctx, "", to, file)
		}
		if _, missing := os.Lstat(to); errors.Is(err, jetstream.ErrObjectNotFound) && missing == nil {
			continue // a submitter that was killed before it could record the result has fetched it
		}
		if err != nil {
			return fmt.Errorf("return %s of task %d from %s: %w", task.Printable(path), t.ID, f.Host, err)
		}
		fetched = append(fetched, file.Object)
	}
	for _, object := range fetched { // not earlier: after an error all are fetched again
		c.objects.remove(ctx, object)
	}
	return nil
}

// close removes what is left of the run's objects.
func (c *runFiles) close() {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	_ = c.s.dropObjects(ctx, c.run+".")
}

// inside returns where a file belongs that is sent as path: below the working
// directory, or at path if that is absolute. As with rsync, what is before /./ is not
// part of the way there.
func inside(path string) (string, error) {
	if _, rest, found := strings.Cut(path, "/./"); found {
		path = rest
	}
	if !filepath.IsAbs(path) && !filepath.IsLocal(path) || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%q is no file below the working directory: give it an absolute path", path)
	}
	return filepath.Clean(path), nil
}

// openRegular opens a file to read it and returns its permissions.
func openRegular(path string) (*os.File, uint32, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for the writer of a pipe
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, uint32(info.Mode().Perm()), nil
}

// replace writes what is read from r to a path, which is absolute or relative to dir. No
// symbolic link leads out of dir.
func replace(dir, name string, mode uint32, r io.Reader) error {
	if filepath.IsAbs(name) {
		dir, name = filepath.Split(name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(cmp.Or(dir, "."))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(name), ".crew."+rand.Text())
	w, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	err = errors.Join(err, w.Chmod(os.FileMode(mode).Perm()), w.Close())
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}
