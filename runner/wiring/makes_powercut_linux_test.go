package wiring

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestMakesPowerCut imitates power cuts while tasks make files: what was not synced is lost,
// or is not, and so is each rename if its directory was not synced. Each target is whole or
// absent then, and the next run leaves what the last command makes. With CREW_SOAK set it
// cuts before every call.
func TestMakesPowerCut(t *testing.T) {
	t.Parallel()
	for _, p := range makePlans() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m := newKilledMaker(t, p)
			most := m.run("2", disturbance{})
			rand := crewtest.Rand(t, 0)
			cuts := []int{most / 2, most}
			if crewtest.Soaking() {
				cuts = rand.Perm(most + 1)
			}
			for i := range cuts {
				m.restore(m.cutDir(i))
			}
			m.restore(m.dir)
			now := &disk{Rand: rand, m: m, files: m.read("/")}
			left := map[int]map[string]string{} // by call
			n := 0
			m.sees = func(c fileCall) {
				left[n] = now.cut()
				n++
				now.sees(c)
			}
			m.run("2", disturbance{})
			m.sees = nil
			left[n] = now.cut()
			for i, at := range cuts {
				t.Run(strconv.Itoa(at), func(t *testing.T) {
					one := *m
					one.t = t
					one.afterCut(m.cutDir(i), left[min(at, n)])
				})
			}
		})
	}
}

// cutDir is where a directory is until its cut: what is old in it was made before the run
// that is cut.
func (m *killedMaker) cutDir(i int) string { return m.dir + "." + strconv.Itoa(i) }

// afterCut goes on with what a power cut has left of files.
func (m *killedMaker) afterCut(dir string, left map[string]string) {
	t := m.t
	require.NoError(t, os.RemoveAll(m.dir))
	require.NoError(t, os.Rename(dir, m.dir))
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "state")))
	before := m.read("/")
	for path, text := range left {
		if was, is := before[path]; !is || was != text {
			m.write(path, text)
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("left %.999q", left)
		}
	}()
	m.check("1", "2")
	m.run("2", disturbance{})
	m.check("2")
	m.nothingElse()
}

// disk follows what is on disk of the files below a directory.
type disk struct {
	*rand.Rand
	m       *killedMaker
	files   map[string]string // what was synced, by path
	pending []fileCall        // renames of these that may be undone, in order
}

// sees takes a call that is about to be made.
func (d *disk) sees(c fileCall) {
	switch now := d.m.read(c.path); c.name {
	case "fsync", "fdatasync":
		if text, file := now[c.path]; file {
			d.files[c.path] = text
		} else {
			d.syncNames(path.Join("/", c.path))
		}
	case "syncfs":
		d.files, d.pending = d.m.read("/"), nil
	case "renameat", "renameat2":
		for path := range now {
			d.files[path] += "" // one that was never synced is empty
		}
		d.pending = append(d.pending, c)
	}
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
	maps.DeleteFunc(d.files, func(name, _ string) bool {
		for path.Dir(name) != dir && name != "/" {
			name = path.Dir(name)
		}
		_, err := os.Lstat(d.m.dir + name)
		return err != nil // it was removed
	})
}

// rename renames a file, or those in a directory, which takes the place of another one.
func rename(files map[string]string, r fileCall) {
	moved := map[string]string{}
	for path, text := range files {
		if rest, ok := strings.CutPrefix(path, r.path); ok {
			moved[r.to+rest] = text
		} else if rest, ok := strings.CutPrefix(path, r.to+"/"); ok {
			moved[r.path+"/"+rest] = text
		} else {
			continue
		}
		delete(files, path)
	}
	maps.Copy(files, moved)
}

// cut returns what a power cut leaves now. The kernel may have written back more than was
// synced.
func (d *disk) cut() map[string]string {
	left := maps.Clone(d.files)
	for _, r := range d.pending {
		if d.IntN(2) > 0 {
			rename(left, r)
		}
	}
	if d.IntN(2) > 0 {
		maps.DeleteFunc(left, func(path, _ string) bool { return strings.HasPrefix(path, "/state/") })
		maps.Copy(left, d.m.read("/state"))
	}
	return left
}

// read returns the content of a file, or of those in a directory, by path.
func (m *killedMaker) read(path string) map[string]string {
	files := map[string]string{}
	_ = filepath.WalkDir(filepath.Join(m.dir, path), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			files[strings.TrimPrefix(path, m.dir)] = string(text)
		}
		return nil
	})
	return files
}
