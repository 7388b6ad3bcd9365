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

// entry holds what the table keeps about a task. The rest can be read from the journal.
type entry struct {
	id       identity
	ended    uint32       // of a task of a queue, if done: when, in seconds since 1970
	seen     uint32       // how many tasks with this identity the input has had so far
	duration task.Seconds // of the last attempt; 0 is unknown
	offset   int64        // of the last line about the task that counts
	lineSize int32        // of that line
	specSize int32        // of that at spec
	spec     int64        // of a task of a queue: the offset of the line that holds the whole task; 0 if there is none
	outputs  int64        // bytes of its outputs, if done
	attempts uint16       // that ended; an interrupted one does not count
	failures uint16       // attempts since the task was last done that used up a retry
	outcome  task.Outcome // if done
	flags    flags
	age      uint8 // of the duration: resets since it was measured

	made task.Stamp // of the last attempt that ended, if the task makes files
}

type flags uint8

const (
	done     flags = 1 << iota // it has ended
	shown                      // stdout has its result
	logged                     // the joblog and the results tree have its result
	streamed                   // if done: its output was shown but not captured
	begun                      // if not done: an attempt has begun
	named                      // of a queue: others can come after it by its name
)

func (e *entry) has(f flags) bool { return e.flags&f == f }

// known returns what a resumed run has to know of a task that makes files.
func (e *entry) known() task.Known {
	switch {
	case e.reusable() && e.outcome.Succeeded():
		return task.KnownMade
	case e.flags&(done|begun) != 0:
		return task.KnownUnmade
	}
	return task.NotKnown
}

// reusable reports whether a resumed run can use the result of an earlier one. It
// cannot if the output was held back for order when that run ended: it is lost.
func (e *entry) reusable() bool { return e.has(done) && (e.has(shown) || !e.has(streamed)) }

const (
	pageLen  = 256 // entries per page
	maxPages = 32  // pages in memory
	minIndex = 1024
	beside   = 4 // see near
)

// table finds entries by identity. The entries are in pages. Of those, a few that were
// used last are in memory and the others in an unnamed file, so only the index grows with
// the number of tasks: 8 bytes per entry, at a load between 7/16 and 7/8.
type table struct {
	index []uint64         // hash in the upper half, number of the entry in the lower; 0 is free
	free  func()           // frees the index
	n     int              // entries; they are numbered from 1
	pages map[uint32]*page // by number
	last  *page            // the one used last
	at    int              // where in last the entry used last is

	dir  string
	file *os.File
	full bool  // the file could not take a page, so all stay in memory from now on
	err  error // from reading the file
}

type page struct {
	number  uint32
	entries [pageLen]entry
}

// newTable returns a table with an index for about n entries. Its file will be in
// dir.
func newTable(dir string, n int) *table {
	size := minIndex
	for size/8*7 < n {
		size *= 2
	}
	t := &table{dir: dir, pages: map[uint32]*page{}}
	t.index, t.free = makeIndex(size)
	return t
}

// makeIndex makes an empty index, outside the heap if possible: because of a large
// index in the heap, the garbage collector would let the heap grow by as much again.
func makeIndex(size int) (index []uint64, free func()) {
	n := uintptr(size) * 8
	p, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]uint64, size), func() {}
	}
	return unsafe.Slice((*uint64)(p), size), func() { _ = unix.MunmapPtr(p, n) }
}

// close frees the index and closes the file. It may be called again.
func (t *table) close() {
	if t.index != nil {
		t.free()
		t.index = nil
		_ = t.file.Close() // may be nil
	}
}

// hashOf returns part of an identity, which is evenly distributed already.
func hashOf(id *identity) uint32 { return binary.LittleEndian.Uint32(id[:]) }

// search returns the entry of id. If there is none, i is where id belongs in the index.
// Collisions are resolved by linear probing.
func (t *table) search(id *identity) (i int, e *entry) {
	if e := t.near(id); e != nil {
		return 0, e
	}
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

// near returns the entry of id if it is beside the one used last, as it mostly is when a
// run is resumed: tasks come in the same order again, but for those that ran side by side.
// A look at the index, which is at random places of the memory, takes much longer.
func (t *table) near(id *identity) *entry {
	if t.last == nil {
		return nil
	}
	some := t.last.entries[max(0, t.at-beside):min(t.at+beside+1, pageLen, t.n-int(t.last.number)*pageLen)]
	for i := range some {
		if some[i].id == *id {
			t.at += i - min(t.at, beside)
			return &some[i]
		}
	}
	return nil
}

// entry returns an entry by its number. It is valid until the next call.
func (t *table) entry(number uint32) *entry {
	number--
	t.at = int(number % pageLen)
	return &t.page(number / pageLen).entries[t.at]
}

// find returns the entry of id, or nil. The caller may use and change it until it uses the
// table again.
func (t *table) find(id identity) *entry {
	_, e := t.search(&id)
	return e
}

// add is like find, but adds an entry if there is none.
func (t *table) add(id identity) *entry {
	i, e := t.search(&id)
	if e == nil {
		if t.n >= len(t.index)/8*7 {
			t.grow()
			i, _ = t.search(&id)
		}
		t.n++
		t.index[i] = uint64(hashOf(&id))<<32 | uint64(t.n)
		e = t.entry(uint32(t.n))
		e.id = id
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

// all is an iter.Seq of the entries in the order in which they were added. The caller may
// use and change each until it uses the table again.
func (t *table) all(yield func(*entry) bool) {
	for n := range uint32(t.n) {
		if !yield(t.entry(n + 1)) {
			return
		}
	}
}

// clear clears flags of every entry.
func (t *table) clear(f flags) {
	for e := range t.all {
		e.flags &^= f
	}
}

// page returns a page after loading it into memory if needed.
func (t *table) page(number uint32) *page {
	if t.last != nil && t.last.number == number {
		return t.last
	}
	p := t.pages[number]
	if p == nil {
		p = t.evict()
		*p = page{number: number}
		t.pages[number] = p
		if t.file != nil && int64(number)*pageLen < int64(t.n)-1 {
			_, err := t.file.ReadAt(p.bytes(), p.offset())
			t.err = cmp.Or(t.err, err)
		}
	}
	t.last = p
	return p
}

// evict returns memory for a page: that of another one, which it writes to the file, if
// there are many in memory and the file can take one.
func (t *table) evict() *page {
	if len(t.pages) < maxPages || t.full {
		return new(page)
	}
	var err error
	if t.file == nil {
		t.file, err = kernel.Unnamed(t.dir)
	}
	for number, p := range t.pages {
		if p == t.last {
			continue
		}
		if err == nil {
			_, err = t.file.WriteAt(p.bytes(), p.offset())
		}
		if t.full = err != nil; t.full {
			break
		}
		delete(t.pages, number)
		return p
	}
	return new(page)
}

// bytes returns the entries as they are in the file. No other process reads it, so
// byte order and padding do not matter.
func (p *page) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&p.entries)), unsafe.Sizeof(p.entries))
}

// offset returns the page's offset in the file.
func (p *page) offset() int64 { return int64(p.number) * int64(unsafe.Sizeof(p.entries)) }
