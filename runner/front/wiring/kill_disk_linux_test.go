package wiring

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// onDisk is what a power cut leaves of a file.
type onDisk struct {
	text string
	time time.Time // when it was written
}

// disk follows what is on disk of the files below a directory: what was synced, and the
// renames in directories that were.
type disk struct {
	*scene
	files   map[string]onDisk // by path
	pending []fileCall        // renames of these that may be undone, in order
}

func newDisk(s *scene) *disk { return &disk{scene: s, files: s.files("/")} }

// observed matches the files that are there for the test alone: they outlive power cuts, and
// a disk always has room for them.
var observed = regexp.MustCompile(`^/(stdout|stderr|effects|tried|work)`)

// files returns the files below a path, by their own.
func (s *scene) files(below string) map[string]onDisk {
	files := map[string]onDisk{}
	_ = filepath.WalkDir(filepath.Join(s.dir, below), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			info, err := e.Info()
			if path = strings.TrimPrefix(path, s.dir); err == nil && !observed.MatchString(path) {
				files[path] = onDisk{string(text), info.ModTime()}
			}
		}
		return nil
	})
	return files
}

// sees takes a call that is about to be made.
func (d *disk) sees(c fileCall) {
	switch c.name {
	case "fsync", "fdatasync":
		if now, is := d.scene.files(c.path)[c.path]; is {
			d.files[c.path] = now
		} else {
			d.syncNames(path.Join("/", c.path))
		}
	case "syncfs":
		d.files, d.pending = d.scene.files("/"), nil
	case "renameat", "renameat2":
		if to, err := os.Lstat(d.dir + c.to); err == nil && to.IsDir() && c.name == "renameat" {
			return // that fails: only renameat2 is told to swap directories
		}
		for path := range d.scene.files(c.path) {
			if _, synced := d.files[path]; !synced {
				d.files[path] = onDisk{}
			}
		}
		if d.has("--state") && path.Dir(c.to) != "/state" && d.replaces(c) {
			rename(d.files, c) // were it undone, the time of change would tell, which restore cannot set
			return
		}
		d.pending = append(d.pending, c)
	}
}

// replaces reports whether a target that was there goes.
func (d *disk) replaces(r fileCall) bool {
	from, err := os.Lstat(d.dir + r.path)
	_, there := d.files[r.to]
	return there || err == nil && from.IsDir()
}

// syncNames takes the sync of a directory.
func (d *disk) syncNames(dir string) {
	d.pending = slices.DeleteFunc(d.pending, func(r fileCall) bool {
		if path.Dir(r.to) != dir {
			return false
		}
		rename(d.files, r)
		return true
	})
	maps.DeleteFunc(d.files, func(name string, _ onDisk) bool {
		for path.Dir(name) != dir && name != "/" {
			name = path.Dir(name)
		}
		_, err := os.Lstat(d.dir + name)
		return err != nil // it was removed
	})
}

// rename renames a file, or those in a directory, which takes the place of another one.
func rename(files map[string]onDisk, r fileCall) {
	moved := map[string]onDisk{}
	for path, file := range files {
		if rest, ok := strings.CutPrefix(path, r.path); ok && (rest == "" || rest[0] == '/') {
			moved[r.to+rest] = file
		} else if rest, ok := strings.CutPrefix(path, r.to+"/"); ok {
			moved[r.path+"/"+rest] = file
		} else {
			continue
		}
		delete(files, path)
	}
	maps.Copy(files, moved)
}

// cut returns what a power cut leaves now. The kernel may have written back more than was
// synced, and has removed the directories that were.
func (d *disk) cut() map[string]onDisk {
	left := maps.Clone(d.files)
	for _, r := range d.pending {
		if d.IntN(2) > 0 {
			rename(left, r)
		}
	}
	journal := d.IntN(2) > 0
	maps.DeleteFunc(left, func(name string, _ onDisk) bool {
		_, err := os.Lstat(d.dir + path.Dir(name))
		return err != nil || journal && strings.HasPrefix(name, "/state/")
	})
	if journal {
		maps.Copy(left, d.scene.files("/state"))
	}
	return left
}

// restore makes the files those that a power cut has left.
func (s *scene) restore(left map[string]onDisk) {
	now := s.files("/")
	for name := range now {
		if _, is := left[name]; !is {
			require.NoError(s.t, os.Remove(s.dir+name))
		}
	}
	for name, file := range left {
		if now[name].text != file.text || now[name].time.IsZero() {
			s.write(name, file.text)
			require.NoError(s.t, os.Chtimes(s.dir+name, file.time, file.time))
		}
	}
}
