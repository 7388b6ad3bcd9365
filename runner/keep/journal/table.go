package journal

import (
	"cmp"
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// entry holds the facts about a task that are kept in the table. The rest is in the journal.
type entry struct {
	id       identity
	ended    uint32       // end of a done task of a queue, in seconds since 1970
	seen     uint32       // number of tasks with this identity in the input so far
	duration task.Seconds // of the last attempt; 0 if unknown
	offset   int64        // offset of the line that describes the task
	lineSize int32        // length of that line
	specSize int32        // length of the line at spec
	spec     int64        // in a queue: offset of the line with the whole task; 0 if there is none
	outputs  int64        // bytes of outputs, if done
	attempts uint16       // ended attempts, without interrupted ones
	outcome  task.Outcome // if done
	flags    flags
	age      uint8 // resets since the duration was measured

	made task.Stamp // of the last ended attempt, if the task makes files
}

type flags uint8

const (
	done     flags = 1 << iota // the task has ended
	shown                      // its result was shown
	logged                     // its result is in the joblog and the results tree
	streamed                   // if done: its output was shown but not captured
	begun                      // if not done: an attempt has begun
	named                      // in a queue: other tasks can name it as a dependency, or it is a rerun
)

func (e *entry) has(f flags) bool { return e.flags&f == f }

// reusable reports whether a resumed run can use the result of an earlier one. It cannot if the
// output was not captured and was still held back for order when that run ended, because it is
// lost.
func (e *entry) reusable() bool { return e.has(done) && (e.has(shown) || !e.has(streamed)) }

const (
	pageLen  = 256 // entries per page
	maxPages = 32  // pages in memory
	minIndex = 1024
)

// table finds entries by identity. Entries are stored in pages. A few pages are in memory and the
// others in an unnamed file, so only the index grows with the number of tasks: it takes 8 bytes per
// slot, at a load factor between 7/16 and 7/8.
type table struct {
	index []uint64         // hash in the upper half, entry number in the lower; 0 is free
	free  func()           // frees the index
	n     int              // number of entries; they are numbered from 1
	pages map[uint32]*page // by number

	dir  string
	file *os.File
	err  error // first read error of the file
}

type page struct {
	number  uint32
	entries [pageLen]entry
}

// newTable returns a table with an index for about n entries. It puts its file into dir.
func newTable(dir string, n int) *table {
	size := minIndex
	for size/8*7 < n {
		size *= 2
	}
	t := &table{dir: dir, pages: map[uint32]*page{}}
	t.index, t.free = makeIndex(size)
	return t
}

// makeIndex returns an empty index, outside the heap if possible. A large index in the heap would
// let the garbage collector grow the heap by the same size again.
func makeIndex(size int) (index []uint64, free func()) {
	n := uintptr(size) * 8
	p, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]uint64, size), func() {}
	}
	return unsafe.Slice((*uint64)(p), size), func() { _ = unix.MunmapPtr(p, n) }
}

// close frees the index and closes the file. Further calls do nothing.
func (t *table) close() {
	if t.index != nil {
		t.free()
		t.index = nil
		_ = t.file.Close() // may be nil
	}
}

// hashOf returns part of an identity, which is already evenly distributed.
func hashOf(id *identity) uint32 { return binary.LittleEndian.Uint32(id[:]) }

// search returns the entry of id. If there is none, e is nil and i is the index slot for id. The
// index uses linear probing.
func (t *table) search(id *identity) (i int, e *entry) {
	mask := len(t.index) - 1
	hash := hashOf(id)
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		x := t.index[i]
		if x == 0 {
			return i, nil
		}
		if uint32(x>>32) == hash {
			if e := t.entry(uint32(x)); e.id == *id {
				return i, e
			}
		}
	}
}

// entry returns the entry with the given number. It is valid until the next call.
func (t *table) entry(number uint32) *entry {
	number--
	return &t.page(number / pageLen).entries[number%pageLen]
}

// find returns the entry of id, or nil. The caller may change it, until the next use of the table.
func (t *table) find(id identity) *entry {
	_, e := t.search(&id)
	return e
}

// add is like find, but adds a missing entry.
func (t *table) add(id identity) *entry {
	i, e := t.search(&id)
	if e == nil {
		if t.n >= len(t.index)/8*7 {
			t.grow()
			i, _ = t.search(&id)
		}
		number := uint32(t.n + 1)
		t.index[i] = uint64(hashOf(&id))<<32 | uint64(number)
		e = t.entry(number)
		e.id = id
		t.n++
	}
	return e
}

func (t *table) grow() {
	old, free := t.index, t.free
	t.index, t.free = makeIndex(2 * len(old))
	mask := len(t.index) - 1
	for _, x := range old {
		if x == 0 {
			continue
		}
		i := int(x>>32) & mask
		for t.index[i] != 0 {
			i = (i + 1) & mask
		}
		t.index[i] = x
	}
	free()
}

// all is an iter.Seq of the entries in the order of adding. The caller may change
// each entry until the next use of the table.
func (t *table) all(yield func(*entry) bool) {
	for n := range uint32(t.n) {
		if !yield(t.entry(n + 1)) {
			return
		}
	}
}

// clearFlags clears flags of every entry.
func (t *table) clearFlags(f flags) {
	for e := range t.all {
		e.flags &^= f
	}
}

// page returns a page, and loads it into memory if necessary.
func (t *table) page(number uint32) *page {
	p := t.pages[number]
	if p == nil {
		p = t.evict()
		*p = page{number: number}
		t.pages[number] = p
		if t.file != nil && int64(number)*pageLen < int64(t.n) {
			_, err := t.file.ReadAt(p.bytes(), p.offset())
			t.err = cmp.Or(t.err, err)
		}
	}
	return p
}

// evict returns memory for a page. If many pages are in memory, it writes one of them to the file
// and reuses its memory. If the file cannot take the page, all pages stay in memory.
func (t *table) evict() *page {
	if len(t.pages) < maxPages {
		return new(page)
	}
	if t.file == nil {
		t.file, _ = kernel.CreateUnnamed(t.dir)
	}
	for number, p := range t.pages {
		if _, err := t.file.WriteAt(p.bytes(), p.offset()); err != nil { // also if there is no file
			break
		}
		delete(t.pages, number)
		return p
	}
	return new(page)
}

// bytes returns the entries in the format of the file. Only this process reads it, so byte order
// and padding do not matter.
func (p *page) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&p.entries)), unsafe.Sizeof(p.entries))
}

// offset returns the offset of the page in the file.
func (p *page) offset() int64 { return int64(p.number) * int64(unsafe.Sizeof(p.entries)) }
