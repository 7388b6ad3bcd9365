package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/crewtest"
)

// A run removes the directory of one that was killed, and nothing that is not a run's, whatever
// it is named.
func TestPrivateDir(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	top, err := control.TempDir()
	require.NoError(t, err)
	mine := []string{filepath.Join(tmp, "crew-engine-mine", "thesis")}
	for _, name := range []string{"mine", dirPrefix + "mine", dirPrefix + "1"} {
		mine = append(mine, filepath.Join(top, name, dataName, "thesis"))
	}
	mine = append(mine, filepath.Join(top, dirPrefix+"killed", "thesis"))
	for path, text := range map[string]string{
		filepath.Join(dirPrefix+"1", markerName):           "another's",
		filepath.Join(dirPrefix+"killed", markerName):      markerText,
		filepath.Join(dirPrefix+"killed", dataName, "old"): "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o700))
		crewtest.WriteFile(t, filepath.Join(top, path), text, 0o600)
	}
	for _, path := range mine {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		crewtest.WriteFile(t, path, "", 0o600)
	}
	first, removeFirst, err := privateDir()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(first, 0o700))
	second, removeSecond, err := privateDir()
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(top, dirPrefix+"killed", dataName))
	require.DirExists(t, first, "that of a living run stays")
	removeFirst()
	removeSecond()
	require.NoDirExists(t, filepath.Dir(first))
	require.NoDirExists(t, filepath.Dir(second))
	for _, path := range mine {
		require.FileExists(t, path)
	}
}

// A directory where another user, or a link, could have put something is none of crew's.
func TestPrivateDirTop(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	top, err := control.TempDir()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(top, 0o755))
	_, _, err = privateDir()
	require.ErrorContains(t, err, "set TMPDIR to another directory")
	require.NoError(t, os.Remove(top))
	require.NoError(t, os.Symlink(t.TempDir(), top))
	_, _, err = privateDir()
	require.ErrorContains(t, err, "is a symbolic link")
}
