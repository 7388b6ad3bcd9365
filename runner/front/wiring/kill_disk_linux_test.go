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

// onDisk is the state of a file after a power cut.
type onDisk struct {
	text string
	time time.Time // when it was written
}

// disk tracks the files below a directory as they are on disk: their synced contents, and the renames in synced
// directories.
type disk struct {
	*scene
	files   map[string]onDisk // by path
	pending []fileCall        // renames that a power cut may undo, in order
}

func newDisk(s *scene) *disk { return &disk{scene: s, files: s.files("/")} }

// observed matches the files that only the test uses. They survive power cuts, and the disk always has room for
// them.
var observed = regexp.MustCompile(`^/(stdout|stderr|effects|tried|work)`)

// files returns the files below a path, by their paths.
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

// sees records a call that is about to be made.
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
			return // the call fails: only renameat2 is asked to swap directories
		}
		for path := range d.scene.files(c.path) {
			if _, synced := d.files[path]; !synced {
				d.files[path] = onDisk{}
			}
		}
		if d.has("--state") && path.Dir(c.to) != "/state" && d.replaces(c) {
			rename(d.files, c) // cannot be undone: restore cannot set the time of change, which would differ
			return
		}
		d.pending = append(d.pending, c)
	}
}

// replaces reports whether a rename replaces an existing target.
func (d *disk) replaces(r fileCall) bool {
	from, err := os.Lstat(d.dir + r.path)
	_, there := d.files[r.to]
	return there || err == nil && from.IsDir()
}

// syncNames records the sync of a directory.
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
		return err != nil // the file was removed
	})
}

// rename renames a file, or the files of a directory, which replaces another directory.
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

// cut returns the files that a power cut leaves now. The kernel may have written back more than was synced, and
// has removed the directories that were removed.
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

// restore restores the files that a power cut has left.
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
