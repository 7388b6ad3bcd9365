package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"crew/runner/keep/trust"
)

// FileName is the name of the file in the --state directory of a queue.
const FileName = "curves"

const (
	keptMinutes = 24 * 60
	keptDays    = 366
	rowSize     = 8 * (1 + int64(Figures))
	rowsOffset  = rowSize // of the first row
	header      = "crew curves 1\n"
)

// file holds the figures of a queue, by the minute for a day and by the day (UTC) for a year. After the header
// it has a row for each minute and then for each day, at its number since 1970 modulo the number of rows. A row
// has the start of the period, in seconds since 1970, and its Point of sums, as little-endian float64. A row
// never crosses the end of a disk sector, so a crash leaves it as it was before or after a write.
type file struct {
	*os.File
	minutes, days *Builder
}

// Keep makes l also keep the figures in a --state directory. The error is about a file that has another
// form, or that others could write. Later errors do not matter to the run, and are ignored.
func (l *Live) Keep(dir string) error {
	path := filepath.Join(dir, FileName)
	f, err := trust.OpenOwn(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("open the figures over time: %w", err)
	}
	minutes, days, err := read(f)
	if err != nil {
		f.Close()
		return fmt.Errorf("%s: %w: remove the file to begin anew", path, err)
	}
	_, _ = f.WriteAt([]byte(header), 0) // may be there
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = &file{f, minutes, days}
	for _, b := range []*Builder{minutes, days} {
		b.levels = l.run.levels
	}
	return nil
}

// ReadFile returns the figures in a --state directory, by the minute and by the day, or nil if the directory holds
// no queue.
func ReadFile(dir string) ([]Curves, error) {
	path := filepath.Join(dir, FileName)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not block
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	defer f.Close()
	minutes, days, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return []Curves{minutes.Curves(0), days.Curves(0)}, nil
}

// read reads a file. Damaged rows are left out. The header may be missing, or zeros after a power cut.
func read(f io.ReaderAt) (minutes, days *Builder, err error) {
	minutes, days = newLatest(time.Minute, keptMinutes), newLatest(24*time.Hour, keptDays)
	b := make([]byte, rowsOffset+(keptMinutes+keptDays)*rowSize)
	n, err := f.ReadAt(b, 0)
	switch {
	case n == 0 && err != io.EOF:
		return nil, nil, err
	case !strings.HasPrefix(header, strings.TrimRight(string(b[:len(header)]), "\x00")):
		return nil, nil, errors.New("this file has no figures of crew")
	}
	for i := range (int64(n) - rowsOffset) / rowSize {
		to := minutes
		if i >= keptMinutes {
			to = days
		}
		to.restore(b[rowsOffset+i*rowSize:][:rowSize])
	}
	return minutes, days, nil
}

// restore adds a row, unless it is empty, damaged, or of the future.
func (b *Builder) restore(row []byte) {
	var p Point
	for f := range p {
		p[f] = number(row[8*(1+f):])
		if !(p[f] >= 0) || p[f] > math.MaxInt64 {
			return
		}
	}
	start := number(row)
	if now := time.Now().Unix(); start > 0 && start <= float64(now) && p[Covered] >= 1e-9 {
		*b.at(int64(start) * int64(time.Second)) = p
	}
}

func number(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

// save writes the rows that have changed.
func (f *file) save(now time.Time) {
	f.saveLatest(f.minutes, rowsOffset, keptMinutes, now)
	f.saveLatest(f.days, rowsOffset+keptMinutes*rowSize, keptDays, now)
}

func (f *file) saveLatest(b *Builder, offset, rows int64, now time.Time) {
	b.advance(now.UnixNano())
	for i := max(b.first, b.saved); i <= b.last; i++ {
		if p := b.points[i]; p != nil {
			row := binary.LittleEndian.AppendUint64(nil, math.Float64bits(time.Duration(i*b.width).Seconds()))
			for _, v := range p {
				row = binary.LittleEndian.AppendUint64(row, math.Float64bits(v))
			}
			_, _ = f.WriteAt(row, offset+i%rows*rowSize)
		}
	}
	b.saved = b.last
}
