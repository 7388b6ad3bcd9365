package journal

import (
	"fmt"
	"io"

	"crew/runner/task"
)

// saveAttempts keeps failed attempts of a task in one extent: of each its line,
// sealed like those of the journal, and right behind it what it wrote.
func (o *outputs) saveAttempts(t *task.Task, before []*task.Result) (extent, error) {
	lines := make([][]byte, len(before))
	var n int64
	for i, r := range before {
		out, err := task.Length(r.Stdout), task.Length(r.Stderr)
		lines[i] = appendResult(nil, evAttempt, t, r, func(b []byte) []byte {
			b = appendExtent(b, streams[0], extent{n: out})
			return appendExtent(b, streams[1], extent{n: err})
		})
		n += int64(len(lines[i])) + out + err
	}
	p := extent{off: o.reserve(n), n: n}
	w := &summer{w: io.NewOffsetWriter(o.file, p.off)}
	var written int64
	for i, r := range before {
		if _, err := w.Write(lines[i]); err != nil {
			return p, err
		}
		written += int64(len(lines[i]))
		for _, out := range [...]task.Output{r.Stdout, r.Stderr} {
			if out == nil {
				continue
			}
			k, err := out.WriteTo(w)
			if err != nil {
				return p, err
			}
			written += k
		}
	}
	if written != n {
		return p, fmt.Errorf("outputs of %d bytes gave %d", n, written)
	}
	p.sum = w.sum
	return p, nil
}

// openAttempts are the failed attempts that were kept at p.
func (o *outputs) openAttempts(t *task.Task, p extent) ([]*task.Result, error) {
	if whole, err := o.open(p); whole == nil || err != nil {
		return nil, err
	}
	var before []*task.Result
	for at := p.off; at < p.off+p.n; {
		body, n, err := readLine(o.file, at)
		if err != nil {
			return nil, err
		}
		rec, err := parse(body)
		if err != nil {
			return nil, err
		}
		r, err := rec.facts(t)
		if err != nil {
			return nil, err
		}
		at += n
		if n := rec.Stdout.n; n > 0 {
			r.Stdout = &kept{file: o.file, extent: extent{off: at, n: n}}
		}
		at += rec.Stdout.n
		if n := rec.Stderr.n; n > 0 {
			r.Stderr = &kept{file: o.file, extent: extent{off: at, n: n}}
		}
		at += rec.Stderr.n
		before = append(before, r)
	}
	return before, nil
}
