package travel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// mostKnown limits the files that are remembered although no attempt needs them now, so
// as not to fetch them again.
const mostKnown = 10_000

// Worker fetches the files that attempts take to a worker's machine, and sends those
// that they bring back. It is safe for concurrent use.
type Worker struct {
	store *Store
	dir   string // working directory of tasks that have none of their own; "" for this process's

	mu    sync.Mutex
	files map[string]*placed // by their paths
	dirs  map[string]string  // made for runs that clean up
}

// placed is a file that was fetched, or was there already.
type placed struct {
	dir, path string // path is below dir, unless it is absolute
	uses      int    // attempts that need it; under Worker.mu
	base      string // the run that removes it at its end; "" for none

	mu      sync.Mutex // held while it is fetched
	content string     // as contentOf has it; "" for none
	mine    bool       // it was fetched, so it may be removed
	size    int64      // as it was fetched
	since   time.Time
}

// NewWorker returns a Worker whose tasks run in dir, or in this process's working directory
// if that is "", unless they have one of their own.
func NewWorker(store *Store, dir string) *Worker {
	return &Worker{store: store, dir: dir, files: map[string]*placed{}, dirs: map[string]string{}}
}

// Trip is what travels with an attempt.
type Trip struct {
	Run, Attempt string // names, with which those of objects begin
	Dir          string // working directory of the attempt's task; "" for the worker's
	Take         []File // to fetch before it starts
	Return       []string
	Cleanup      bool // what was fetched, and what is sent back, is removed when it has ended
}

// Take fetches the files of an attempt to where they belong: below the working
// directory of its task, unless their paths are absolute. What is there already stays.
// The caller calls Leave once the attempt has ended, even if Take fails.
func (p *Worker) Take(ctx context.Context, a *Trip) error {
	dir := cmp.Or(a.Dir, p.dir)
	held := make([]*placed, len(a.Take))
	for i, f := range a.Take {
		held[i] = p.hold(a, f, dir)
	}
	if err := p.makeDir(a, dir); err != nil {
		return err
	}
	for i, f := range a.Take {
		if err := p.fetch(ctx, held[i], f); err != nil {
			return fmt.Errorf("fetch %s: %w", f.Path, err)
		}
	}
	return nil
}

// makeDir makes the working directory of an attempt's task if it is missing.
func (p *Worker) makeDir(a *Trip, dir string) error {
	if _, err := os.Stat(dir); dir == "" || !errors.Is(err, fs.ErrNotExist) {
		return nil // if it is no directory, the task says so
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if a.Cleanup {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dirs[dir] = a.Run
	}
	return nil
}

// hold notes that an attempt needs a file.
func (p *Worker) hold(a *Trip, f File, dir string) *placed {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := below(dir, f.Path)
	h := p.files[key]
	if h == nil {
		h = &placed{dir: dir, path: f.Path}
		p.files[key] = h
	}
	if f.Base && a.Cleanup {
		h.base = a.Run
	}
	h.uses++
	return h
}

// fetch has a file be there.
func (p *Worker) fetch(ctx context.Context, h *placed, f File) error {
	if _, err := inside(f.Path); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := os.Lstat(below(h.dir, h.path))
	as := err == nil && info.Mode().IsRegular() && info.Size() == h.size && info.ModTime().Equal(h.since)
	if as && uint32(info.Mode().Perm()) == f.Mode && h.content == filepath.Ext(f.Object) {
		return nil // it is as it was fetched
	}
	h.content = ""
	if h.mine || !f.is(below(h.dir, h.path)) {
		if err := p.store.write(ctx, h.dir, h.path, f); err != nil {
			return err
		}
		h.mine = true
	}
	if info, err := os.Lstat(below(h.dir, h.path)); err == nil {
		h.content, h.size, h.since = filepath.Ext(f.Object), info.Size(), info.ModTime()
	}
	return nil
}

// Bring sends the files that an attempt was to leave. What is not there, or no file that
// can be read, is left out. An error is the engine's.
func (p *Worker) Bring(ctx context.Context, a *Trip) (list []File, err error) {
	for i, path := range a.Return {
		f := File{Path: path, Object: a.Attempt + "." + strconv.Itoa(i)}
		f.Mode, err = p.sendBack(ctx, f.Object, below(cmp.Or(a.Dir, p.dir), path))
		if _, here := errors.AsType[*fs.PathError](err); here {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("return %s: %w", path, err)
		}
		list = append(list, f)
	}
	return list, nil
}

func (p *Worker) sendBack(ctx context.Context, object, path string) (mode uint32, err error) {
	in, mode, err := openRegular(path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return mode, p.store.Put(ctx, object, in)
}

// Leave notes that an attempt has ended. If it is to clean up, the files go that were
// fetched for it and no other needs, and those that it has left.
func (p *Worker) Leave(a *Trip) {
	dir := cmp.Or(a.Dir, p.dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range a.Take {
		key := below(dir, f.Path)
		h := p.files[key]
		if h.uses--; h.uses == 0 && a.Cleanup && !f.Base {
			p.remove(key, h)
		}
	}
	if a.Cleanup {
		for _, path := range a.Return {
			removeFile(dir, path)
		}
	}
	if len(p.files) > mostKnown {
		maps.DeleteFunc(p.files, func(_ string, h *placed) bool { return h.uses == 0 && h.base == "" })
	}
}

// remove removes a file that no attempt needs. Its caller holds mu.
func (p *Worker) remove(key string, h *placed) {
	if h.mine {
		removeFile(h.dir, h.path)
	}
	delete(p.files, key)
}

// End removes the base files of a run, or of all runs if it is "", that clean up, and
// the working directories that were made for it and are empty.
func (p *Worker) End(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, h := range p.files {
		if h.base != "" && (run == "" || run == h.base) && h.uses == 0 {
			p.remove(key, h)
		}
	}
	for dir, of := range p.dirs {
		if run == "" || run == of {
			_ = os.Remove(dir)
			delete(p.dirs, dir)
		}
	}
}
