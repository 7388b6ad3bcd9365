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

// maxKnown limits how many files are remembered while no attempt needs them. A remembered
// file need not be fetched again.
const maxKnown = 10_000

// Worker fetches the files that attempts take to a worker's machine, and provides the files that they
// return. It is safe for concurrent use.
type Worker struct {
	blobs *Blobs
	store *spool.Store // holds the files that attempts return
	dir   string       // working directory of tasks that name none; "" for this process's

	mu    sync.Mutex
	files map[string]*placed // by resolved path
}

// placed is a file that was fetched or existed before, or a directory that was made for a run and is
// removed at its end if it is empty.
type placed struct {
	dir, path string // path is relative to dir, or absolute
	uses      int    // attempts that need it; protected by Worker.mu
	run       string // the run at whose end it is removed; "" for none

	mu      sync.Mutex        // held while it is fetched
	content [sha256.Size]byte // its SHA-256; zero if unknown
	created bool              // it was fetched or made here, so it may be removed
	size    int64             // at the time of the fetch
	modTime time.Time         // at the time of the fetch
}

// NewWorker returns a Worker. Tasks without a working directory of their own run in dir, or in this
// process's working directory if dir is "".
func NewWorker(blobs *Blobs, store *spool.Store, dir string) *Worker {
	return &Worker{blobs: blobs, store: store, dir: dir, files: map[string]*placed{}}
}

// Trip describes the files that travel with an attempt.
type Trip struct {
	User    string   // the owner of the files, as a part of subjects
	Dir     string   // working directory of the attempt's task; "" for the worker's
	Take    []File   // files to fetch before it starts
	Return  []string // paths of the files to return
	Makes   []string // files that it makes under temporary names, which are removed when it has ended
	Temp    string   // the start of these names; see task.Making
	Cleanup bool     // remove the fetched and the returned files when it has ended
}

// temp returns the temporary name of a path of trip.Makes.
func (trip *Trip) temp(path string) string { return (&task.Making{Temp: trip.Temp}).TempName(path) }

// Fetch fetches the files of an attempt to the working directory of its task, or to their absolute
// paths. If the same file is already there, it is not fetched, and Release does not remove it. Fetch
// also makes the directories of the files that the attempt makes. The caller must call Release once the
// attempt has ended, even if Fetch fails.
func (w *Worker) Fetch(ctx context.Context, run string, trip *Trip) error {
	dir, cleanupRun := cmp.Or(trip.Dir, w.dir), ""
	if trip.Cleanup {
		cleanupRun = run
	}
	tracked := make([]*placed, len(trip.Take))
	for i, f := range trip.Take {
		run := ""
		if f.Base {
			run = cleanupRun
		}
		tracked[i] = w.track(dir, f.Path, run, true)
	}
	if _, err := os.Stat(dir); dir != "" && errors.Is(err, fs.ErrNotExist) { // if dir is not a directory, the task reports that
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if abs, err := filepath.Abs(dir); err == nil {
			w.track("", abs, cleanupRun, false)
		}
	}
	for i, f := range trip.Take {
		if err := w.place(ctx, trip.User, tracked[i], f); err != nil {
			return fmt.Errorf("fetch %s: %w", f.Path, err)
		}
	}
	for _, path := range trip.Makes {
		root, _, err := openParent(dir, path)
		if err != nil {
			return fmt.Errorf("make the directory of %s: %w", path, err)
		}
		root.Close()
		w.track(dir, filepath.Dir(path), cleanupRun, false) // not removed right away: other attempts may be about to use it
	}
	return nil
}

// track records that an attempt needs a file, or that a directory may have been made for one. If run is
// not "", the file or directory is removed at the end of that run.
func (w *Worker) track(dir, path, run string, file bool) *placed {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := resolve(dir, path)
	h := w.files[key]
	if h == nil {
		h = &placed{dir: dir, path: path, created: !file}
		w.files[key] = h
	}
	if h.run = cmp.Or(run, h.run); file {
		h.uses++
	}
	return h
}

// place fetches a file unless the same file is already there.
func (w *Worker) place(ctx context.Context, user string, h *placed, f File) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := os.Lstat(resolve(h.dir, h.path))
	unchanged := err == nil && info.Mode().IsRegular() && info.Size() == h.size && info.ModTime().Equal(h.modTime)
	if unchanged && uint32(info.Mode().Perm()) == f.Mode && h.content == f.Sum {
		return nil // unchanged since it was fetched
	}
	h.content = [sha256.Size]byte{}
	var existing File // possibly the same file, if both machines share a disk
	if in, err := existing.read(h.dir, h.path, io.Discard); err == nil {
		in.Close()
	}
	if existing.Mode != f.Mode || existing.Sum != f.Sum {
		if err := w.blobs.fetch(ctx, user, f, h.dir, h.path); err != nil {
			return err
		}
		h.created = true
	}
	// A file that has just changed can change again without its time changing.
	if info, err := os.Lstat(resolve(h.dir, h.path)); err == nil && time.Since(info.ModTime()) > target.Racy {
		h.content, h.size, h.modTime = f.Sum, info.Size(), info.ModTime()
	}
	return nil
}

// Collect copies the files that an attempt should return to blobs and, if made is set, the files that
// it made. It leaves out files that are missing or cannot be read. But if a made file exists and cannot
// be read, Collect fails with a *fs.PathError. After an error no blobs remain.
func (w *Worker) Collect(trip *Trip, made bool) (list []File, err error) {
	paths := trip.Return
	if made {
		paths = slices.Concat(paths, trip.Makes)
	}
	for i, path := range paths {
		f := File{Path: path, Made: i >= len(trip.Return)}
		at := path
		if f.Made {
			at = trip.temp(path)
		}
		err := w.copy(cmp.Or(trip.Dir, w.dir), at, &f)
		e, isPathError := errors.AsType[*fs.PathError](err)
		switch {
		case err == nil:
			list = append(list, f)
		case isPathError && !(f.Made && !errors.Is(err, fs.ErrNotExist)): // leave it out
		default:
			for _, f := range list {
				w.blobs.Drop(f.Blob)
			}
			if isPathError {
				return nil, &fs.PathError{Op: "return", Path: path, Err: e.Err}
			}
			return nil, fmt.Errorf("return %s: %w", path, err)
		}
	}
	return list, nil
}

// copy copies a file to a blob. A copy is needed because the next task may change the file.
func (w *Worker) copy(dir, path string, f *File) error {
	content := w.store.Buffer()
	defer content.Close()
	in, err := f.read(dir, path, content)
	if err == nil {
		in.Close()
		f.Blob = w.blobs.Add(content.Hold(), f.Size)
	}
	return err
}

// Release must be called when an attempt has ended. It removes the files that the attempt made under
// temporary names. If trip.Cleanup is set, it also removes the files that the attempt returned, and the
// fetched files that no other attempt needs.
func (w *Worker) Release(trip *Trip) {
	dir := cmp.Or(trip.Dir, w.dir)
	for _, path := range trip.Makes {
		if in, _, err := openParent(dir, trip.temp(path)); err == nil { // otherwise the path leads out of dir
			target.Remove(resolve(dir, trip.temp(path)))
			in.Close()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range trip.Take {
		key := resolve(dir, f.Path)
		h := w.files[key]
		if h.uses--; h.uses == 0 && trip.Cleanup && !f.Base {
			w.removeLocked(key, h)
		}
	}
	if trip.Cleanup {
		for _, path := range trip.Return {
			w.removeFileLocked(dir, path)
		}
	}
	if len(w.files) > maxKnown {
		maps.DeleteFunc(w.files, func(_ string, h *placed) bool { return h.uses == 0 && h.run == "" })
	}
}

// removeLocked removes a file that no attempt needs, or a directory if it is empty. If it is still
// there, its entry stays, so that CleanUp tries again when the worker ends if it belongs to a run. The
// caller must hold mu.
func (w *Worker) removeLocked(key string, h *placed) {
	if h.created {
		w.removeFileLocked(h.dir, h.path)
	}
	if _, err := os.Lstat(key); err != nil || !h.created {
		delete(w.files, key)
	}
}

// CleanUp removes the base files of a run whose attempts clean up, and the empty directories that were
// made for it. If run is "", it does so for all runs.
func (w *Worker) CleanUp(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(w.files))) { // files before the directories that hold them
		if h := w.files[key]; h.run != "" && (run == "" || run == h.run) && h.uses == 0 {
			w.removeLocked(key, h)
		}
	}
}

// removeFileLocked removes a file or an empty directory, and then the directories between it and dir
// that have become empty. The caller must hold mu.
func (w *Worker) removeFileLocked(dir, path string) {
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
		if w.files[resolve(dir, name)] != nil {
			return
		}
	}
}
