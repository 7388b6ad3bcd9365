package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
)

// dispatches starts a dispatcher that starts no processes.
func (b *broker) dispatches() {
	b.runs = b.t.TempDir()
	none := func() (net.Conn, error) { return nil, errors.New("there is no process") }
	d, err := newDispatcher(b.t.Context(), b.connect(nil), none, b.runs, 0, quiet)
	require.NoError(b.t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.serve()
	}()
	b.t.Cleanup(func() { crewtest.Receive(b.t, ended, "the end of the dispatcher") })
}

// Bytes that a crash has left at the end of the results file are no result.
func TestCutResults(t *testing.T) {
	record := runRecord{RunInfo: newRunInfo("q", "", "=", identity{Run: "r"}), Options: RunOptions{Attempts: encode(kindAttempt, &Attempt{}), Secret: newIdentity().Secret}}
	record.Progress = &Progress{Tasks: 2}
	dir := filepath.Join(t.TempDir(), "r")
	write := func(name, text string) {
		crewtest.WriteFile(t, filepath.Join(dir, name), text, 0o600)
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	text, err := json.Marshal(record)
	require.NoError(t, err)
	write(recordFile, string(text))
	whole := `{"task":1,"outcome":"ok","out":3,"err":2}` + "\nab\nc\n"
	d := &detachedRun{runDir: runDir(dir), cancelErrs: map[uint64]error{}}
	for _, rest := range []string{"", "{", `{"task":2,"outcome":"ok","out":3,"err":0}` + "\nab", `{"task":2,"out":0,"err":0}` + "\n"} {
		write(resultsFile, whole+rest)
		require.NoError(t, d.open())
		require.NoError(t, d.recover())
		require.Equal(t, whole, crewtest.ReadFile(t, filepath.Join(dir, resultsFile)))
	}
	past := d.ended(1, 2)
	require.Len(t, past, 1)
	b := make([]byte, 2)
	_, err = past[1].Outputs[1].ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "c\n", string(b))
	d.submitter = &submitter{}
	require.NoError(t, d.recordCancelled([]uint64{2}, errors.New("why")))
	d.cancelErrs = map[uint64]error{}
	require.NoError(t, d.recover())
	require.EqualError(t, d.cancelErrs[2], "why")
}

// A run that was removed leaves nothing in memory.
func TestForgotten(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		none := func() (net.Conn, error) { return nil, errors.New("there is no process") }
		d, err := newDispatcher(t.Context(), b.connect(nil), none, t.TempDir(), 0, quiet)
		require.NoError(t, err)
		o := Order{from: "ada", Record: &runRecord{RunInfo: RunInfo{Run: "r", Progress: &Progress{}}}, Tasks: &travel.Blob{}}
		h, err := d.addRun(&o)
		require.NoError(t, err)
		require.NoError(t, d.forget(h))
		require.False(t, h.expiry.Stop())
		require.Empty(t, d.all())
		d.cancel()
		d.wg.Wait()
	})
}

func TestHandOverWithdrawn(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.dispatches()
		s := b.connect(nil)
		u, err := newUploader(testCall(), wiring.Orders{}, s, nil)
		require.NoError(t, err)
		long := bytes.Repeat([]byte("x"), maxMessage)
		for id := range uint64(3) {
			require.NoError(t, u.add(&task.Task{ID: id + 1, Argv: []string{"true"}, Stdin: long}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		run, err := u.upload(ctx)
		require.NoError(t, err)
		require.Empty(t, run)
		now, err := b.connect(nil).queryStatus(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, now.Runs)
		left, err := os.ReadDir(b.runs)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
