package journal

import (
	"encoding/binary"

	"crew/runner/task"
)

// entry is what is kept in memory of a task: 32 bytes without a pointer. What
// else the journal has to say of it is read where at says.
type entry struct {
	id      identity
	seen    uint32  // how many tasks of this identity the input has had so far
	took    float32 // seconds of the last attempt; 0 is unknown
	atLow   uint32
	atHigh  uint16
	outcome task.Outcome // under done
	flags   flags
}

type flags uint8

const (
	done     flags  = 1 << iota // it has ended, and its record is at at
	released                    // its result has been shown
	streamed                    // under done: what it wrote went past crew and is not kept
	ageShift = iota             // how often the journal was begun anew since took was measured
)

func (e *entry) has(f flags) bool { return e.flags&f != 0 }

func (e *entry) age() int { return int(e.flags >> ageShift) }

func (e *entry) at() int64 { return int64(e.atHigh)<<32 | int64(e.atLow) }

func (e *entry) setAt(off int64) { e.atLow, e.atHigh = uint32(off), uint16(off>>32) }

const chunkLen = 1024

// table finds entries by identity: an open-addressed index (linear probing, as
// identities are evenly spread already) of entries in chunks that never move.
type table struct {
	index  []uint32 // number of an entry, from 1; a power of two long
	chunks [][]entry
	n      int
}

// newTable makes a table with room for so many entries.
func newTable(room int) *table {
	size := 1024
	for size/4*3 < room {
		size *= 2
	}
	return &table{index: make([]uint32, size)}
}

func (t *table) entry(number uint32) *entry {
	number--
	return &t.chunks[number/chunkLen][number%chunkLen]
}

// slot is where in the index id is, or would go.
func (t *table) slot(id identity) int {
	mask := len(t.index) - 1
	i := int(binary.LittleEndian.Uint64(id[:])) & mask
	for t.index[i] != 0 && t.entry(t.index[i]).id != id {
		i = (i + 1) & mask
	}
	return i
}

// find is the entry of id, or nil.
func (t *table) find(id identity) *entry {
	if n := t.index[t.slot(id)]; n != 0 {
		return t.entry(n)
	}
	return nil
}

// add is the entry of id, new where there was none.
func (t *table) add(id identity) *entry {
	i := t.slot(id)
	if n := t.index[i]; n != 0 {
		return t.entry(n)
	}
	if t.n >= len(t.index)/4*3 {
		t.grow()
		i = t.slot(id)
	}
	if t.n%chunkLen == 0 {
		t.chunks = append(t.chunks, make([]entry, chunkLen))
	}
	t.n++
	t.index[i] = uint32(t.n)
	e := t.entry(uint32(t.n))
	e.id = id
	return e
}

func (t *table) grow() {
	t.index = make([]uint32, 2*len(t.index))
	for n := range uint32(t.n) {
		t.index[t.slot(t.entry(n+1).id)] = n + 1
	}
}

// all calls f with every entry, in the order in which they were added.
func (t *table) all(f func(*entry)) {
	for n := range uint32(t.n) {
		f(t.entry(n + 1))
	}
}
