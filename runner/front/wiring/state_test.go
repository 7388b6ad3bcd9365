package wiring

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"crew/runner/keep/journal"
	"crew/runner/show/history"
)

func TestStateText(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/state.txtar")
	require.NoError(t, err)
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.Local)
	for i := 0; i < len(archive.Files); i += 2 {
		var s journal.Summary
		var r history.Report
		in := json.NewDecoder(strings.NewReader(strings.ReplaceAll(string(archive.Files[i].Data), "$ZONE", start.Format("Z07:00"))))
		in.DisallowUnknownFields()
		require.NoError(t, in.Decode(&s))
		require.NoError(t, in.Decode(&r))
		require.Equal(t, string(archive.Files[i+1].Data), summary{&s, &r, start.Add(2 * time.Minute)}.text())
	}
}
