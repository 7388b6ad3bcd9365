package sink

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// tree returns the contents of the files below dir, except result.json.
func tree(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		files[name] = ""
		if filepath.Base(path) != "result.json" {
			files[name] = crewtest.ReadFile(t, path)
		}
		return nil
	}))
	return files
}

// in returns dir for every task.
func in(dir string) func(*task.Task) string { return func(*task.Task) string { return dir } }

// TestResults checks the directory after each of several runs, with obstacles in it.
func TestResults(t *testing.T) {
	crewtest.Examples(t, "testdata/results.jsonl", func(t *testing.T, c struct {
		It    string
		Steps []struct {
			Open                    bool
			File, Text, Dir, Remove string // made by another program
			Events                  []happening
			Tree                    map[string]string
			Error                   string
		}
	}) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		var s *Results
		for _, step := range c.Steps {
			var err error
			switch path := filepath.Join(dir, step.File+step.Dir+step.Remove); {
			case step.Open:
				s, err = OpenResults(dir, in(dir), Records{})
			case step.Dir != "":
				err = os.MkdirAll(path, 0o777)
			case step.File != "":
				err = os.WriteFile(path, []byte(step.Text), 0o666)
			case step.Remove != "":
				err = os.RemoveAll(path)
			default:
				err = errors.Join(s.Consume(eventsOf(t, step.Events)), s.Close(task.Stats{}))
			}
			if step.Error != "" {
				require.ErrorContains(t, err, strings.ReplaceAll(step.Error, "DIR", dir), c.It)
				continue
			}
			require.NoError(t, err)
			if step.Tree != nil {
				require.Equal(t, step.Tree, tree(t, dir), c.It)
			}
		}
	})
}
