package sched

// slab holds the items of many lists in one piece of memory, which follows the
// largest number of items that were in at once, however they were spread.
// newSlab and newIndexedSlab make one. Its methods take and return items by pointer,
// since an Item has too many words for the compiler to keep it in registers.
type slab struct {
	nodes  []node           // nodes[0] is not used
	unused int32            // the first unused node, linked by next
	n      int              // items in all lists
	where  map[uint64]int32 // the node of each item by ID; nil without an index, which drop makes
}

type node struct {
	Item
	next, prev int32
	owner      int32 // for the user of the slab: which list it is in; 0 at first
}

// list is a list of items in a slab, in order of rank. The zero list is empty.
type list struct {
	head, tail int32
	n          int
	ends       byRank[int32] // the last node of each rank; empty while all items have rank 0
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
	if it.Rank != 0 || len(l.ends) > 0 {
		l.extend(i, at, it.Rank)
	}
	next := s.after(l, at)
	if at != 0 {
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

// after returns the node behind node at of l, or the first one if at is 0.
func (s *slab) after(l *list, at int32) int32 {
	if at == 0 {
		return l.head
	}
	return s.nodes[at].next
}

// add puts an item into l behind those of its rank, and returns its node.
func (s *slab) add(l *list, it *Item) int32 {
	_, last := l.span(it.Rank)
	return s.put(l, it, last)
}

// insert puts an item into l, in which the items of each rank are in order of ID, and returns its
// node.
// This takes O(1) at either end of its rank, the usual cases.
func (s *slab) insert(l *list, it *Item) int32 {
	before, at := l.span(it.Rank)
	if at != before && s.nodes[s.after(l, before)].ID > it.ID {
		at = before
	}
	for at != before && s.nodes[at].ID > it.ID {
		at = s.nodes[at].prev
	}
	return s.put(l, it, at)
}

// span returns the last node of the lower ranks, or 0, and the last node of a rank.
// They are the same if there are no items of that rank.
func (l *list) span(rank int64) (before, last int32) {
	if len(l.ends) == 0 {
		switch {
		case rank < 0:
			return 0, 0
		case rank > 0:
			return l.tail, l.tail
		}
		return 0, l.tail
	}
	i, found := l.ends.find(rank)
	if i > 0 {
		before = l.ends[i-1].x
	}
	if !found {
		return before, before
	}
	return before, l.ends[i].x
}

// extend updates the ends of l for a node i of a rank, before it is put behind node at.
func (l *list) extend(i, at int32, rank int64) {
	if len(l.ends) == 0 && l.n > 0 {
		l.ends.insert(0, 0, l.tail)
	}
	k, found := l.ends.find(rank)
	switch {
	case !found:
		l.ends.insert(k, rank, i)
	case l.ends[k].x == at:
		l.ends[k].x = i
	}
}

// shorten updates the ends of l for the removal of node i.
func (s *slab) shorten(l *list, i int32) {
	n := &s.nodes[i]
	k, _ := l.ends.find(n.Rank)
	switch {
	case l.ends[k].x != i:
	case n.prev != 0 && s.nodes[n.prev].Rank == n.Rank:
		l.ends[k].x = n.prev
	default:
		l.ends.delete(k)
	}
	if len(l.ends) == 1 && l.ends[0].rank == 0 {
		l.ends = l.ends[:0]
	}
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
	if len(l.ends) > 0 {
		s.shorten(l, i)
	}
	l.n--
	s.n--
	n.next, s.unused = s.unused, i
	if s.where != nil {
		delete(s.where, n.ID)
	}
	n.ID = 0
}

// drop removes an item from l, which has it unless it is in no list, and reports whether it was
// in. The first call makes the index: until items are dropped, it would only cost time.
func (s *slab) drop(l *list, id uint64) bool {
	if s.where == nil {
		s.where = map[uint64]int32{}
		for i := range s.nodes {
			if n := &s.nodes[i]; n.ID != 0 {
				s.where[n.ID] = int32(i)
			}
		}
	}
	i := s.where[id]
	if i != 0 {
		s.cut(l, i)
	}
	return i != 0
}

// first returns the first item of l, which must not be empty. The pointer is valid
// until the slab changes.
func (s *slab) first(l *list) *Item { return &s.nodes[l.head].Item }
