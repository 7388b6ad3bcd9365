package web

import "crypto/rand"

const (
	mostKept  = 16 << 20  // bytes of the lines of a run
	mostBatch = 256 << 10 // of those that are sent at once, unless it is one line
)

// lines are the latest lines of a run, numbered from 0.
type lines struct {
	id    string // of this numbering, as another one gives the same numbers to other lines
	kept  [][]byte
	first int // the number of kept[0]
	size  int // bytes of kept
	most  int // the most that size is to be
}

func newLines() lines { return lines{id: rand.Text(), most: mostKept} }

// next returns the number of the line that comes next.
func (l *lines) next() int { return l.first + len(l.kept) }

// add adds a line, which is not copied.
func (l *lines) add(line []byte) {
	l.kept = append(l.kept, line)
	l.size += len(line)
	for l.size > l.most {
		l.drop(1)
	}
}

// drop forgets the first n lines that are kept.
func (l *lines) drop(n int) {
	for i := range n {
		l.size -= len(l.kept[i])
		l.kept[i] = nil
	}
	l.kept = l.kept[n:]
	l.first += n
}

// from returns lines from a number on, or false if they are not kept any more, or never
// were.
func (l *lines) from(n int) (batch [][]byte, ok bool) {
	if n < l.first || n > l.next() {
		return nil, false
	}
	size := 0
	for _, line := range l.kept[n-l.first:] {
		if size += len(line); size > mostBatch && len(batch) > 0 {
			break
		}
		batch = append(batch, line)
	}
	return batch, true
}
