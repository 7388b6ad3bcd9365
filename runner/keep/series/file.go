package series

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"crew/runner/keep/trust"
)

// FileName is the name of the file in the --state directory of a queue.
const FileName = "curves.json"

const (
	version     = 1
	keptMinutes = 24 * 60
	keptDays    = 366
	mostBytes   = 4 << 20 // of a file; the longest has about a tenth of this
)

// archive is the content of the file: the figures of a queue, by the minute for a day and by the day (UTC) for a
// year.
type archive struct {
	Version int      `json:"version"`
	Curves  []Curves `json:"curves"`
}

// Keep makes l also keep the figures in a --state directory. The error is about a file that has another
// form, or that others could write. Later errors do not matter to the run, and are ignored.
func (l *Live) Keep(dir string) error {
	path := filepath.Join(dir, FileName)
	kept, err := read(trust.OpenOwn(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if err != nil {
		return fmt.Errorf("%w: remove the file to begin anew", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path, l.archive = path, []*Builder{newLatest(time.Minute, keptMinutes), newLatest(24*time.Hour, keptDays)}
	for i, b := range l.archive {
		b.levels = l.run.levels
		if kept != nil {
			b.restore(kept[i])
		}
	}
	return nil
}

// ReadFile returns the figures in a --state directory, by the minute and by the day, or nil if dir is no directory
// of a queue.
func ReadFile(dir string) ([]Curves, error) {
	return read(os.OpenFile(filepath.Join(dir, FileName), os.O_RDONLY|syscall.O_NONBLOCK, 0)) // a FIFO does not block
}

// read reads the file that was opened, unless err says that it was not. It returns nil if there is no file.
func read(f *os.File, err error) ([]Curves, error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var a archive
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err == nil && (json.Unmarshal(text, &a) != nil || a.Version != version || len(a.Curves) != 2 || !a.Curves[0].Valid() || !a.Curves[1].Valid()) {
		err = fmt.Errorf("%s: this file has no figures of crew", f.Name())
	}
	return a.Curves, err
}

// restore adds the points of c, except points of the future.
func (b *Builder) restore(c Curves) {
	for i, p := range c.Points {
		at := c.Start.UnixNano() + int64(i)*b.width
		if p == (Point{}) || !valid(at) || at > time.Now().UnixNano() {
			continue
		}
		for f := Running; f < Figures; f++ { // from averages to sums
			p[f] *= cmp.Or(p[Covered], time.Duration(b.width).Seconds())
		}
		*b.at(at) = p
	}
}

// saveLocked writes the file. The caller must hold mu.
func (l *Live) saveLocked(now time.Time) {
	a := archive{Version: version}
	for _, b := range l.archive {
		a.Curves = append(a.Curves, b.Curves(now.UnixNano()))
	}
	if text, err := json.Marshal(a); err == nil {
		_ = trust.WritePrivate(l.path, text)
	}
	l.saved = now
}
