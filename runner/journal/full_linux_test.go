package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// What is shown once the disk is full is noted nevertheless, so no run shows it again.
func TestNotesOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	cfg := configured(filepath.Join(dir, "state"))
	var commands []string
	for i := range 20 {
		commands = append(commands, fmt.Sprint("x ", i))
	}
	j := opened(t, cfg)
	var out shower
	src, commit, show := j.Source(&list{commands: commands}), j.Commit(), j.Shown(&out)
	var events []task.Event
	for range commands {
		tk, err := src.Next(nil)
		require.NoError(t, err)
		r := ends(ok).attempt(j, tk, 1, true)
		events = append(events,
			task.Event{Kind: task.Finished, ID: tk.ID, Task: tk, Attempt: 1, Result: r},
			task.Event{Kind: task.Released, ID: tk.ID, Last: tk.ID})
	}
	require.NoError(t, commit.Consume(events))
	filler := filepath.Join(dir, "filler")
	require.ErrorIs(t, os.WriteFile(filler, make([]byte, 2<<20), 0o666), unix.ENOSPC)
	for len(events) > 0 {
		require.NoError(t, show.Consume(events[:2]))
		events = events[2:]
	}
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(filler))
	shown, ran := run(t, cfg, ok, commands...)
	require.Empty(t, shown)
	require.Empty(t, ran)
}
