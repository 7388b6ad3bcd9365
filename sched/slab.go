package sched

// slab holds the items of many queues in one piece of memory, so that what the
// queues occupy together follows the most items that were ever in, however
// they were spread. The zero slab is empty.
type slab struct {
	nodes []node // nodes[0] is no node
	free  int32  // the first unused one, linked by next
}

type node struct {
	Item
	next, prev int32
	owner      int32 // whose queue it is in, as the slab's user counts
}

// list is a queue of items in a slab. The zero list is empty.
type list struct {
	head, tail int32
	n          int
}

func (s *slab) alloc(it Item, owner int) int32 {
	if i := s.free; i != 0 {
		s.free = s.nodes[i].next
		s.nodes[i] = node{Item: it, owner: int32(owner)}
		return i
	}
	if len(s.nodes) == 0 {
		s.nodes = append(s.nodes, node{})
	}
	s.nodes = append(s.nodes, node{Item: it, owner: int32(owner)})
	return int32(len(s.nodes) - 1)
}

// link puts node i into l behind node at, or first where at is 0.
func (s *slab) link(l *list, i, at int32) {
	next := l.head
	if at != 0 {
		next = s.nodes[at].next
		s.nodes[at].next = i
	} else {
		l.head = i
	}
	s.nodes[i].prev, s.nodes[i].next = at, next
	if next != 0 {
		s.nodes[next].prev = i
	} else {
		l.tail = i
	}
	l.n++
}

// add puts an item at the end of l.
func (s *slab) add(l *list, it Item, owner int) int32 {
	i := s.alloc(it, owner)
	s.link(l, i, l.tail)
	return i
}

// insert puts an item into l, which is in the order of IDs and stays so. The
// usual places, last and first, cost O(1).
func (s *slab) insert(l *list, it Item, owner int) int32 {
	i := s.alloc(it, owner)
	at := l.tail
	if at != 0 && s.nodes[l.head].ID > it.ID {
		at = 0
	}
	for at != 0 && s.nodes[at].ID > it.ID {
		at = s.nodes[at].prev
	}
	s.link(l, i, at)
	return i
}

// cut takes node i out of l.
func (s *slab) cut(l *list, i int32) Item {
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
	n.next, s.free = s.free, i
	return n.Item
}

// find is the node in l that holds id, or 0.
func (s *slab) find(l *list, id uint64) int32 {
	i := l.head
	for i != 0 && s.nodes[i].ID != id {
		i = s.nodes[i].next
	}
	return i
}

// first is the first item of l, which is not empty.
func (s *slab) first(l *list) Item { return s.nodes[l.head].Item }
