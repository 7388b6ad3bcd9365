package wiring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestWatch checks that a change is reported once the file stays the same, and a removal once it stays removed. Each
// item of the row has an action before a check, and what the check reports: nothing, another file, or that the
// file is gone.
func TestWatch(t *testing.T) {
	name, text := filepath.Join(t.TempDir(), "file"), "x"
	crewtest.WriteFile(t, name, text, 0o666)
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 10)
		stop := watchFiles([]string{name}, time.Second, func(err error) {
			told <- map[bool]string{true: "another", false: "gone"}[err == nil]
			require.True(t, err == nil || errors.Is(err, os.ErrNotExist))
		})
		defer stop()
		time.Sleep(time.Second / 2) // between two checks
		for row := range strings.FieldsSeq("wait: wait:another wait: grow: grow: grow: grow: wait:another remove: grow: wait:another remove: wait:gone wait:") {
			do, want, _ := strings.Cut(row, ":")
			switch do {
			case "grow":
				text += "x"
				crewtest.WriteFile(t, name, text, 0o666)
			case "remove":
				require.NoError(t, os.Remove(name))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			got := ""
			for len(told) > 0 {
				got += <-told
			}
			require.Equal(t, want, got, row)
		}
	})
}
