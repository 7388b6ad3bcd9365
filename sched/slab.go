package sched

// slab holds the items of many lists in one piece of memory, which follows the
// largest number of items that were in at once, however they were spread.
// newSlab and newIndexedSlab make one.
type slab struct {
	nodes  []node           // nodes[0] is not used
	unused int32            // the first unused node, linked by next
	n      int              // items in all lists
	where  map[uint64]int32 // the node of each item by ID; nil without an index
}

type node struct {
	Item
	next, prev int32
	owner      int32 // for the user of the slab: which list it is in; 0 at first
}

// list is a list of items in a slab. The zero list is empty.
type list struct {
	head, tail int32
	n          int
}

func newSlab() slab { return slab{nodes: make([]node, 1)} }

func newIndexedSlab() slab { return slab{nodes: make([]node, 1), where: map[uint64]int32{}} }

// Len returns the number of items in the slab.
func (s *slab) Len() int { return s.n }

// put puts an item into l behind node at, or first if at is 0, and returns its
// node.
func (s *slab) put(l *list, it *Item, at int32) int32 {
	i := s.unused
	if i != 0 {
		s.unused = s.nodes[i].next
	} else {
		s.nodes = append(s.nodes, node{})
		i = int32(len(s.nodes) - 1)
	}
	next := l.head
	if at != 0 {
		next = s.nodes[at].next
		s.nodes[at].next = i
	} else {
		l.head = i
	}
	if next != 0 {
		s.nodes[next].prev = i
	} else {
		l.tail = i
	}
	n := &s.nodes[i]
	n.Item, n.next, n.prev, n.owner = *it, next, at, 0
	l.n++
	s.n++
	if s.where != nil {
		s.where[it.ID] = i
	}
	return i
}

// add appends an item to l and returns its node.
func (s *slab) add(l *list, it *Item) int32 { return s.put(l, it, l.tail) }

// insert inserts an item into l, which is in order of ID. At the front and at
// the back, the usual cases, this takes O(1).
func (s *slab) insert(l *list, it *Item) {
	at := l.tail
	if at != 0 && s.nodes[l.head].ID > it.ID {
		at = 0
	}
	for at != 0 && s.nodes[at].ID > it.ID {
		at = s.nodes[at].prev
	}
	s.put(l, it, at)
}

// cut removes node i from l.
func (s *slab) cut(l *list, i int32) {
	n := &s.nodes[i]
	if n.prev != 0 {
		s.nodes[n.prev].next = n.next
	} else {
		l.head = n.next
	}
	if n.next != 0 {
		s.nodes[n.next].prev = n.prev
	} else {
		l.tail = n.prev
	}
	l.n--
	s.n--
	n.next, s.unused = s.unused, i
	if s.where != nil {
		delete(s.where, n.ID)
	}
}

// first returns the first item of l, which must not be empty. The pointer is valid
// until the slab changes.
func (s *slab) first(l *list) *Item { return &s.nodes[l.head].Item }
