package journal

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// fault takes a step in which a fault happens. It returns an error of the disk.
func (w *world) fault(op string, names []string) error {
	switch op {
	case "damage":
		require.NoError(w.t, os.Truncate(filepath.Join(w.cfg.Dir, filepath.Base(w.j.out.file.Name())), 0))
	case "fails": // only notes are recorded from now on
		w.j.fail(errors.New("no room"))
	case "block": // nothing can be created under the name of a new journal
		return os.MkdirAll(filepath.Join(w.cfg.Dir, newName, "full"), 0o700)
	case "compact-fails": // the new journal cannot be put in place
		path := filepath.Join(w.cfg.Dir, journalName)
		return errors.Join(os.Rename(path, path+".kept"), os.Mkdir(path, 0o700), w.do("compact-all"), os.Remove(path), os.Rename(path+".kept", path))
	case "accept-huge": // a delivery of two tasks, one of which is too large
		return w.j.Accept([]*task.Task{{ID: 8}, {ID: 9, Env: []string{strings.Repeat("\xff", MaxLine*3/4)}}}, "d") // in base64
	case "litter": // files that a crash may leave
		return os.WriteFile(filepath.Join(w.cfg.Dir, names[0]), []byte("of a crash"), 0o600)
	case "breaks": // the disk fails from now on
		var err error
		w.j.file.Close()
		w.j.file, err = os.OpenFile(names[0], os.O_RDWR, 0)
		require.NoError(w.t, err)
	case "breaks-outputs":
		var err error
		w.j.out.file, err = os.OpenFile(names[0], os.O_RDWR, 0)
		require.NoError(w.t, err)
	case "kill":
		w.kill(math.MaxInt64, "", false)
	case "powercut":
		w.kill(math.MaxInt64, "", true)
	default:
		w.t.Fatal("no such step: ", op)
	}
	return nil
}

// note notes the files that a power cut would leave.
func (w *world) note() {
	o := w.j.out
	if !w.j.dirty && w.j.failure() == nil {
		w.synced = w.j.end
	}
	if !o.dirty {
		w.outputs = o.end
	}
}

// kill continues in a copy of the directory as a kill leaves it: n bytes of the journal and an
// incomplete line. A power cut also loses what was not synced, except the positions of outputs.
func (w *world) kill(n int64, torn string, powercut bool) {
	dir := w.t.TempDir()
	require.NoError(w.t, os.CopyFS(dir, os.DirFS(w.cfg.Dir)))
	path := filepath.Join(dir, journalName)
	file, err := os.ReadFile(path)
	require.NoError(w.t, err)
	if powercut && n == math.MaxInt64 {
		n = w.synced
	}
	file = append(file[:min(n, int64(len(file)))], torn...)
	require.NoError(w.t, os.WriteFile(path, file, 0o600))
	output := filepath.Join(dir, filepath.Base(w.j.out.file.Name()))
	if info, err := os.Stat(output); err == nil && powercut {
		require.NoError(w.t, os.Truncate(output, min(info.Size(), w.outputs)))
		require.NoError(w.t, os.Truncate(output, info.Size()))
	}
	w.j.Close()
	w.cfg.Dir = dir
}
