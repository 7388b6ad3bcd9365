package input

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"crew/runner/decide/task"
)

// BlocksConfig describes the input of Blocks, and how it is cut into blocks of whole records.
type BlocksConfig struct {
	Stdin      io.Reader // read for "-", and if there are no Files
	Files      []string  // read one after another; a block never spans two files
	Format     Format    // Kind is Lines or CSV; the header is repeated before each block
	Bytes      int64     // size of a block, unless a record is longer; 0: no limit
	Parts      int       // number of blocks that regular files are cut into, instead of Bytes; 0: use Bytes
	Records    int       // number of records in a block at most; 0: no limit
	Start, End string    // text at the start and at the end of a record of Lines; if both are empty, a byte is a record
}

// MaxBlock is the size of the largest block of an input that is not a regular file.
const MaxBlock = 1 << 30

// Blocks cuts files and streams into blocks. It reads a regular file only where it cuts it, and
// the block is a range of the file. It ignores bytes that are added after the file was opened. Other
// input is read into buffers, which are reused once their blocks are freed.
type Blocks struct {
	cutter  cutter
	format  Format
	head    []byte
	parts   []part // the first one is being cut
	buffers buffers
}

// part is a file or a stream that is cut into blocks.
type part struct {
	name string
	file *os.File // nil for a stream
	content
	off        int64 // where the next block begins
	headerDone bool  // the skipped records and the header have been cut off, if it has any
}

// OpenBlocks opens all files. Files that are cut into ranges stay open.
func OpenBlocks(cfg BlocksConfig) (*Blocks, error) {
	c := cutter{boundary: []byte(cfg.End + cfg.Start), ending: len(cfg.End), bytes: cfg.Bytes, records: cfg.Records}
	b := &Blocks{cutter: c, format: cfg.Format}
	b.buffers.size = int(min(cfg.Bytes, MaxBlock)) + 2*span // the start of the next record is read, too
	if cfg.Format.Kind == CSV {
		b.cutter.csv, b.cutter.records = true, cmp.Or(cfg.Records, math.MaxInt)
	}
	files, err := openFiles(cfg.Stdin, Config{Files: cfg.Files}.Paths())
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, f := range files {
		p := part{name: f.name}
		if o, at, size := seekable(f.rd); o != nil {
			p.file, p.off, p.content = o, at, &inFile{name: f.name, file: o, end: size, buf: make([]byte, 0, 2*span+len(c.boundary))}
			total += size - at
		} else if cfg.Bytes > MaxBlock || cfg.Parts > 0 {
			return nil, fmt.Errorf("%s is not a regular file, so each block has to fit into memory: write a --block of at most 1G", f.name)
		} else {
			p.content = &inMemory{name: f.name, rd: f.rd, from: &b.buffers}
		}
		b.parts = append(b.parts, p)
	}
	if cfg.Parts > 0 {
		b.cutter.bytes, b.cutter.roundUp = (total-1)/int64(cfg.Parts)+1, true
	}
	return b, nil
}

// seekable returns r as a regular file, with its offset and size, or nil. It returns nil for files
// of proc(5), which have no size.
func seekable(r io.Reader) (f *os.File, at, size int64) {
	f, _ = r.(*os.File)
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		if at, err = f.Seek(0, io.SeekCurrent); err == nil {
			return f, at, max(at, st.Size())
		}
	}
	return nil, 0, 0
}

// next sets blk to the next block. It returns io.EOF after the last one.
func (b *Blocks) next(blk *task.Block) error {
	for len(b.parts) > 0 {
		p := &b.parts[0]
		b.cutter.name = p.name
		if err := b.cutHeader(p); err != nil {
			return err
		}
		to, err := b.cutter.next(p, p.off)
		if err != nil {
			return err
		}
		if from := p.off; to > from {
			p.off = to
			*blk = task.Block{Head: b.head, Name: p.name, File: p.file, Off: from}
			if p.file != nil {
				blk.Len = to - from
			} else {
				blk.Text, blk.Free = p.content.(*inMemory).take(int(to - from))
			}
			return nil
		}
		b.parts, b.cutter.lines = b.parts[1:], 0
	}
	return io.EOF
}

// cutHeader cuts off the skipped records, and then the header if p continues with it.
func (b *Blocks) cutHeader(p *part) error {
	if p.headerDone {
		return nil
	}
	p.headerDone = true
	for i, records := range [...]int{b.format.Skip, b.format.Header} {
		if records == 0 {
			continue
		}
		c := b.cutter
		c.bytes, c.records, c.roundUp = 0, records, false
		to, err := c.next(p, p.off)
		if err != nil {
			return err
		}
		n := int(to - p.off)
		text, err := p.bytesAt(p.off, n)
		switch {
		case err != nil || n == 0:
			return err
		case i == 0: // skipped
		case b.head == nil:
			b.head = bytes.Clone(text[:n])
		case !bytes.Equal(b.head, text[:n]):
			return nil
		}
		b.cutter.lines = c.lines
		if p.off = to; p.file == nil {
			_, free := p.content.(*inMemory).take(n)
			free()
		}
	}
	return nil
}

// CountBlocks returns the number of blocks. ok is false if a file is not a regular file or cannot be
// read, or if stop is set before it has counted all of them.
func CountBlocks(cfg BlocksConfig, stop *atomic.Bool) (n int64, ok bool) {
	if !(Config{Files: cfg.Files}).regular() {
		return 0, false
	}
	b, err := OpenBlocks(cfg)
	if err != nil || slices.ContainsFunc(b.parts, func(p part) bool { return p.file == nil }) {
		return 0, false
	}
	return countUntilEOF(stop, func() error { return b.next(new(task.Block)) })
}

// inFile is the content of a regular file. Blocks are ranges of the file.
type inFile struct {
	name string
	file *os.File
	end  int64
	buf  []byte // bytes of the file from off on
	off  int64
}

func (f *inFile) endOf(int64) (int64, error) { return f.end, nil }

func (f *inFile) bytesAt(off int64, n int) ([]byte, error) {
	n = int(max(0, min(int64(n), f.end-off)))
	if skip := off - f.off; skip >= 0 && skip+int64(n) <= int64(len(f.buf)) {
		return f.buf[skip:], nil
	}
	if n > cap(f.buf) {
		f.buf = make([]byte, n)
	}
	f.buf, f.off = f.buf[:min(int64(cap(f.buf)), f.end-off)], off
	got, err := f.file.ReadAt(f.buf, off)
	f.buf = f.buf[:got]
	switch {
	case got >= n:
		return f.buf, nil
	case err == io.EOF:
		err = errors.New("it has become shorter")
	}
	return nil, fmt.Errorf("read %s: %w", f.name, task.WithoutPath(err))
}
