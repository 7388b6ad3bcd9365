package input

import (
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

// countTasks returns how many tasks there are in fact.
func countTasks(t *testing.T, cfg Config, tc TasksConfig) (n int64) {
	r, err := Open(cfg)
	require.NoError(t, err)
	defer r.Close()
	for src := NewTasks(r, tc); ; n++ {
		_, err := src.Next(func() uint64 { return uint64(n + 1) })
		if err == io.EOF {
			return n
		}
		require.NoError(t, err)
	}
}

// TestCountIsExact has Count agree with the tasks of random inputs.
func TestCountIsExact(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewSource(1))
	eof := "stop"
	known := 0
	for i := range 600 {
		random := func() string {
			var b strings.Builder
			for range rnd.Intn(12) {
				words := []string{"a", "a,b", "", " ", "#x", "stop", "\"q\nr\"", "\"", `{"args":["x"]}`, `{}`, "x\r", strings.Repeat("y", 50)}
				b.WriteString(words[rnd.Intn(len(words))])
				b.WriteString([]string{"\n", "\n", "\n", "\x00", "ab"}[rnd.Intn(5)])
			}
			return b.String()
		}
		file := func() string {
			path := filepath.Join(dir, fmt.Sprint(i, "-", rnd.Int()))
			require.NoError(t, os.WriteFile(path, []byte(random()), 0o666))
			return path
		}
		chance := func(percent int) bool { return rnd.Intn(100) < percent }
		stdin := random()
		cfg := Config{SkipEmpty: chance(20), Comments: chance(20), Format: Format{Header: chance(30)}}
		if chance(20) {
			cfg.EOF = &eof
		}
		if chance(20) {
			cfg.MaxRecord = 40
		}
		switch rnd.Intn(6) {
		case 0:
			cfg.Format.Kind = CSV
		case 1:
			cfg.Format = Format{Kind: JSON}
		case 2:
			cfg.Format.Delimiter = []string{"\x00", "ab", ","}[rnd.Intn(3)]
		case 3:
			cfg.Format.Colsep = regexp.MustCompile(" +|,")
		}
		for range rnd.Intn(3) {
			cfg.Files = append(cfg.Files, file())
		}
		if cfg.Format.Kind != JSON {
			for range rnd.Intn(3) {
				g := Group{Linked: chance(30) && len(cfg.Groups)+len(cfg.Files) > 0}
				if g.File = file(); chance(50) {
					g.File, g.Values = "", strings.Split(random(), "\n")
				}
				cfg.Groups = append(cfg.Groups, g)
			}
		}
		words := [][]string{{"echo", "{}"}, {"x{/}y{}"}, {"cat '{.}' {//} \"{}\""}}[rnd.Intn(3)]
		var tc TasksConfig
		if chance(30) && cfg.Format.Kind != JSON {
			tc.Limits = Limits{Records: 1 + rnd.Intn(4), Chars: []int{0, 100}[rnd.Intn(2)], ArgMax: []int{300, 2000, 1 << 20}[rnd.Intn(3)], Workers: rnd.Intn(4)}
		}
		if chance(30) {
			tc.Share = func(tk *task.Task) bool { return len(fmt.Sprint(tk.Records))%3 == 0 }
		}
		var err error
		tc.Template, err = expand.New(expand.Config{Words: words, Batch: true})
		require.NoError(t, err)

		again := cfg
		again.Stdin = strings.NewReader(stdin)
		n, ok := Count(again, tc, new(atomic.Bool))
		if !ok {
			continue
		}
		known++
		cfg.Stdin = strings.NewReader(stdin)
		require.Equal(t, countTasks(t, cfg, tc), n, "%+v %+v", cfg, tc.Limits)
	}
	require.Greater(t, known, 580)
}

func TestCountIsUnknown(t *testing.T) {
	template, err := expand.New(expand.Config{Words: []string{"echo", "{}"}, Batch: true})
	require.NoError(t, err)
	tc := TasksConfig{Template: template}
	plain := Config{Groups: []Group{{Values: []string{"a", "b"}}}}
	var stop atomic.Bool

	n, ok := Count(plain, tc, &stop)
	require.True(t, ok)
	require.EqualValues(t, 2, n)

	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("a\nb\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, ok = Count(Config{Files: []string{fmt.Sprintf("/dev/fd/%d", r.Fd())}}, tc, &stop)
	require.False(t, ok)
	left, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n", string(left), "nothing is taken from a pipe")

	stop.Store(true)
	_, ok = Count(plain, tc, &stop)
	require.False(t, ok)
}
