package travel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/exec/target"
)

// mostKnown limits the files that are remembered although no attempt needs them now, so
// as not to fetch them again.
const mostKnown = 10_000

// Worker fetches the files that attempts take to a worker's machine, and keeps those
// that they bring back. It is safe for concurrent use.
type Worker struct {
	blobs *Blobs
	store *spool.Store // of what they bring back
	dir   string       // working directory of tasks that have none of their own; "" for this process's

	mu    sync.Mutex
	files map[string]*placed // by their paths
}

// placed is a file that was fetched, or was there already, or a directory that was made for a run and
// goes at its end if it is empty.
type placed struct {
	dir, path string // path is below dir, unless it is absolute
	uses      int    // attempts that need it; under Worker.mu
	run       string // which removes it at its end; "" for none

	mu      sync.Mutex        // held while it is fetched
	content [sha256.Size]byte // its sum
	mine    bool              // it was fetched or made, so it may be removed
	size    int64             // as it was fetched
	since   time.Time
}

// NewWorker returns a Worker whose tasks run in dir, or in this process's working directory
// if that is "", unless they have one of their own.
func NewWorker(blobs *Blobs, store *spool.Store, dir string) *Worker {
	return &Worker{blobs: blobs, store: store, dir: dir, files: map[string]*placed{}}
}

// Trip is what travels with an attempt.
type Trip struct {
	User    string   // who has the files, as a part of subjects
	Dir     string   // working directory of the attempt's task; "" for the worker's
	Take    []File   // to fetch before it starts
	Return  []string // paths to bring back
	Makes   []string // what it makes under temporary names, which nothing is left of when it has ended
	Temp    string   // begins these; see task.Making
	Cleanup bool     // what was fetched, and what is brought back, is removed when it has ended
}

// temp returns the temporary name of one of a.Makes.
func (a *Trip) temp(path string) string { return (&task.Making{Temp: a.Temp}).TempName(path) }

// Take fetches the files of an attempt of a run to where they belong: below the working
// directory of its task, unless their paths are absolute. What is there already stays.
// It also makes the directories of what the attempt makes.
// The caller calls Leave once the attempt has ended, even if Take fails.
func (p *Worker) Take(ctx context.Context, run string, a *Trip) error {
	dir, ends := cmp.Or(a.Dir, p.dir), ""
	if a.Cleanup {
		ends = run
	}
	held := make([]*placed, len(a.Take))
	for i, f := range a.Take {
		run := ""
		if f.Base {
			run = ends
		}
		held[i] = p.hold(dir, f.Path, run, true)
	}
	if _, err := os.Stat(dir); dir != "" && errors.Is(err, fs.ErrNotExist) { // if it is no directory, the task says so
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if whole, err := filepath.Abs(dir); err == nil {
			p.hold("", whole, ends, false)
		}
	}
	for i, f := range a.Take {
		if err := p.fetch(ctx, a.User, held[i], f); err != nil {
			return fmt.Errorf("fetch %s: %w", f.Path, err)
		}
	}
	for _, path := range a.Makes {
		root, _, err := openParent(dir, path)
		if err != nil {
			return fmt.Errorf("make the directory of %s: %w", path, err)
		}
		root.Close()
		p.hold(dir, filepath.Dir(path), ends, false) // others may be about to use it
	}
	return nil
}

// hold notes that an attempt needs a file, or that a directory may have been made for one, and the run
// at whose end that goes.
func (p *Worker) hold(dir, path, run string, file bool) *placed {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := below(dir, path)
	h := p.files[key]
	if h == nil {
		h = &placed{dir: dir, path: path, mine: !file}
		p.files[key] = h
	}
	if h.run = cmp.Or(run, h.run); file {
		h.uses++
	}
	return h
}

// fetch has a file be there.
func (p *Worker) fetch(ctx context.Context, user string, h *placed, f File) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := os.Lstat(below(h.dir, h.path))
	as := err == nil && info.Mode().IsRegular() && info.Size() == h.size && info.ModTime().Equal(h.since)
	if as && uint32(info.Mode().Perm()) == f.Mode && h.content == f.Sum {
		return nil // it is as it was fetched
	}
	h.content = [sha256.Size]byte{}
	var there File // it may be the very file, where both machines see the same disk
	if in, err := there.read(h.dir, h.path, io.Discard); err == nil {
		in.Close()
	}
	if there.Mode != f.Mode || there.Sum != f.Sum {
		if err := p.blobs.fetch(ctx, user, f, h.dir, h.path); err != nil {
			return err
		}
		h.mine = true
	}
	// A file that has just changed can change again, and have the same time.
	if info, err := os.Lstat(below(h.dir, h.path)); err == nil && time.Since(info.ModTime()) > target.Racy {
		h.content, h.size, h.since = f.Sum, info.Size(), info.ModTime()
	}
	return nil
}

// Bring copies the files that an attempt was to leave, and those that it has made if made is
// set, to blobs. What is not there, or no file that can be read, is left out; but what was made and is
// no such file is an error, a *fs.PathError. After an error there are no blobs.
func (p *Worker) Bring(a *Trip, made bool) (list []File, err error) {
	paths := a.Return
	if made {
		paths = slices.Concat(paths, a.Makes)
	}
	for i, path := range paths {
		f := File{Path: path, Made: i >= len(a.Return)}
		at := path
		if f.Made {
			at = a.temp(path)
		}
		err := p.copy(cmp.Or(a.Dir, p.dir), at, &f)
		e, here := errors.AsType[*fs.PathError](err)
		switch {
		case err == nil:
			list = append(list, f)
		case here && !(f.Made && !errors.Is(err, fs.ErrNotExist)): // it was not to be left
		default:
			for _, f := range list {
				p.blobs.Drop(f.Blob)
			}
			if here {
				return nil, &fs.PathError{Op: "return", Path: path, Err: e.Err}
			}
			return nil, fmt.Errorf("return %s: %w", path, err)
		}
	}
	return list, nil
}

// copy copies a file to a blob: the next task may change it.
func (p *Worker) copy(dir, path string, f *File) error {
	content := p.store.Buffer()
	defer content.Close()
	in, err := f.read(dir, path, content)
	if err == nil {
		in.Close()
		f.Blob, err = p.blobs.Keep(content.Hold(), f.Size)
	}
	return err
}

// Leave notes that an attempt has ended. What it has made under temporary names goes. If it
// is to clean up, the files go as well that were fetched for it and no other needs, and those
// that it has left.
func (p *Worker) Leave(a *Trip) {
	dir := cmp.Or(a.Dir, p.dir)
	for _, path := range a.Makes {
		if in, _, err := openParent(dir, a.temp(path)); err == nil { // or else it leads out
			target.Remove(below(dir, a.temp(path)))
			in.Close()
		}
	}
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
			p.removeFile(dir, path)
		}
	}
	if len(p.files) > mostKnown {
		maps.DeleteFunc(p.files, func(_ string, h *placed) bool { return h.uses == 0 && h.run == "" })
	}
}

// remove removes what no attempt needs. What is still there then is looked at once more when the worker
// ends. Its caller holds mu.
func (p *Worker) remove(key string, h *placed) {
	if h.mine {
		p.removeFile(h.dir, h.path)
	}
	if _, err := os.Lstat(key); err != nil || !h.mine {
		delete(p.files, key)
	}
}

// End removes the base files of a run, or of all runs if it is "", that clean up, and
// the directories that were made for it and are empty.
func (p *Worker) End(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(p.files))) { // what is below a directory before it
		if h := p.files[key]; h.run != "" && (run == "" || run == h.run) && h.uses == 0 {
			p.remove(key, h)
		}
	}
}

// removeFile removes a file, or an empty directory, and the directories between it and dir that
// are then empty. Its caller holds mu.
func (p *Worker) removeFile(dir, path string) {
	if filepath.IsAbs(path) {
		_ = os.Remove(path)
		return
	}
	root, err := os.OpenRoot(cmp.Or(dir, "."))
	if err != nil {
		return
	}
	defer root.Close()
	for name := filepath.Clean(path); name != "." && root.Remove(name) == nil; {
		name = filepath.Dir(name)
		if p.files[below(dir, name)] != nil {
			return
		}
	}
}
