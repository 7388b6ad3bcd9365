package journal

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/spool"
	"crew/runner/task"
)

// entry is what is remembered of a task. What else the journal has to say of it
// is read where at says.
type entry struct {
	id       identity
	seen     uint32  // how many tasks of this identity the input has had so far
	took     float32 // seconds of the last attempt; 0 is unknown
	atLow    uint32
	atHigh   uint16
	attempts uint16       // that have ended; one that was interrupted is made again under its number
	failures uint16       // of these since the task was last done, the ones that used up a retry
	outcome  task.Outcome // under done
	flags    flags
}

type flags uint8

const (
	done     flags  = 1 << iota // it has ended, and its record is at at
	shown                       // stdout has its result
	logged                      // the joblog and the results tree have it
	streamed                    // under done: what it wrote went past crew and is not kept
	begun                       // without done: an attempt has begun
	ageShift = iota             // how often the journal was begun anew since took was measured
)

func (e *entry) has(f flags) bool { return e.flags&f == f }

func (e *entry) age() int { return int(e.flags >> ageShift) }

func (e *entry) at() int64 { return int64(e.atHigh)<<32 | int64(e.atLow) }

func (e *entry) setAt(off int64) { e.atLow, e.atHigh = uint32(off), uint16(off>>32) }

const (
	pageLen   = 128 // entries in a page
	mostPages = 64  // pages in memory
	leastRoom = 1024
)

// table finds entries by identity. The entries are in pages, of which the latest
// used are in memory and the others in a file without a name, so that what grows
// with the number of tasks is the index alone: 8 bytes a task over its load,
// which is between 7/16 and 7/8.
type table struct {
	index  []uint64 // an entry's hash in the upper half, its number from 1 in the lower; 0 is free
	mapped bool     // the index is outside of the heap
	n      int
	pages  map[uint32]*page
	last   *page
	clock  uint64

	dir  string
	file *os.File
	full bool  // the file takes no more: all pages stay in memory
	err  error // the file could not be read
}

type page struct {
	number  uint32
	used    uint64 // when, by the table's clock
	changed bool
	entries [pageLen]entry
}

// newTable makes a table with room for so many entries whose file is in dir.
func newTable(dir string, room int) *table {
	size := leastRoom
	for size/8*7 < room {
		size *= 2
	}
	t := &table{dir: dir, pages: map[uint32]*page{}}
	t.makeIndex(size)
	return t
}

// makeIndex makes an empty index of that size, where it can outside of the heap:
// the collector would let that grow by as much again.
func (t *table) makeIndex(size int) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size)*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if t.mapped = err == nil; t.mapped {
		t.index = unsafe.Slice((*uint64)(p), size)
	} else {
		t.index = make([]uint64, size)
	}
}

func freeIndex(index []uint64, mapped bool) {
	if mapped {
		_ = unix.MunmapPtr(unsafe.Pointer(&index[0]), uintptr(len(index))*8)
	}
}

// close gives back what the table occupies. It may be called again.
func (t *table) close() {
	if t.index != nil {
		freeIndex(t.index, t.mapped)
		t.index = nil
	}
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// hashOf is evenly spread, as identities are.
func hashOf(id *identity) uint32 { return binary.LittleEndian.Uint32(id[:]) }

// search is where in the index id is, or would go, and its entry, nil where it
// has none. It probes linearly.
func (t *table) search(id *identity) (int, *entry) {
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

// entry is the entry of a number, valid until the next one is asked for.
func (t *table) entry(number uint32) *entry {
	number--
	return &t.page(number / pageLen).entries[number%pageLen]
}

// find is the entry of id, to be read until the next call; nil where there is
// none.
func (t *table) find(id identity) *entry {
	_, e := t.search(&id)
	return e
}

// edit is find for an entry that is changed until the next call.
func (t *table) edit(id identity) *entry {
	_, e := t.search(&id)
	if e != nil {
		t.last.changed = true
	}
	return e
}

// add is edit, with a new entry where there was none.
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
	t.last.changed = true
	return e
}

func (t *table) grow() {
	old, mapped := t.index, t.mapped
	t.makeIndex(2 * len(old))
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
	freeIndex(old, mapped)
}

// all calls f with every entry, to be read, in the order in which they were
// added.
func (t *table) all(f func(*entry)) {
	for n := range uint32(t.n) {
		f(t.entry(n + 1))
	}
}

// clear takes flags from every entry.
func (t *table) clear(f flags) {
	for n := range uint32(t.n) {
		t.entry(n + 1).flags &^= f
		t.last.changed = true
	}
}

// page is a page, in memory.
func (t *table) page(number uint32) *page {
	if t.last != nil && t.last.number == number {
		return t.last
	}
	p := t.pages[number]
	if p == nil {
		p = t.load(number)
	}
	t.clock++
	p.used = t.clock
	t.last = p
	return p
}

// load brings a page that is not in memory there, and may put another into the
// file for it.
func (t *table) load(number uint32) *page {
	p := &page{}
	if len(t.pages) >= mostPages && !t.full {
		p = t.evict()
	}
	*p = page{number: number}
	t.pages[number] = p
	if t.file != nil && int64(number)*pageLen < int64(t.n)-1 {
		_, err := t.file.ReadAt(p.bytes(), int64(number)*int64(unsafe.Sizeof(p.entries)))
		if err != nil && t.err == nil {
			t.err = err
		}
	}
	return p
}

// evict takes the page that was not used for the longest time out of memory.
// Where its file does not take it, it and all others stay.
func (t *table) evict() *page {
	var oldest *page
	for _, p := range t.pages {
		if oldest == nil || p.used < oldest.used {
			oldest = p
		}
	}
	if oldest.changed && !t.save(oldest) {
		t.full = true
		return &page{}
	}
	delete(t.pages, oldest.number)
	return oldest
}

func (t *table) save(p *page) bool {
	if t.file == nil {
		f, err := spool.Unnamed(t.dir)
		if err != nil {
			return false
		}
		t.file = f
	}
	_, err := t.file.WriteAt(p.bytes(), int64(p.number)*int64(unsafe.Sizeof(p.entries)))
	p.changed = err != nil
	return err == nil
}

// bytes are the page's entries as they are in the file, which no other process
// ever reads.
func (p *page) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&p.entries)), unsafe.Sizeof(p.entries))
}
