package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"crew/runner/task"
)

var errGarbage = errors.New("not a message of crew's")

// versionError is the error of a message of another version.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d of crew's wire format, this is version %d: install the same crew on all machines", e.got, Version)
}

// codec writes a message or reads one: the same calls, in the same order, with the
// fields that are written or set. Numbers are varints, and what varies in length begins
// with its length. After the first mistake in a message it reads zeros.
type codec struct {
	b       []byte // written, or not read yet
	reading bool
	bad     bool
}

// head begins a message of a kind.
func head(kind byte) *codec { return &codec{b: []byte{'c', 'r', Version, kind}} }

// encode returns the message of a kind that has the fields.
func encode(kind byte, fields func(*codec)) []byte {
	c := head(kind)
	fields(c)
	return c.b
}

// open returns the body of a message of a kind.
func open(msg []byte, kind byte) (*codec, error) {
	if len(msg) < 4 || msg[0] != 'c' || msg[1] != 'r' {
		return nil, errGarbage
	}
	if msg[2] != Version {
		return nil, &versionError{int(msg[2])}
	}
	if msg[3] != kind {
		return nil, errGarbage
	}
	return &codec{b: msg[4:], reading: true}, nil
}

// decode reads a whole message of a kind.
func decode[T any](msg []byte, kind byte, fields func(*T, *codec)) (*T, error) {
	c, err := open(msg, kind)
	if err != nil {
		return nil, err
	}
	to := new(T)
	if fields(to, c); c.bad || len(c.b) > 0 {
		return nil, errGarbage
	}
	return to, nil
}

func (c *codec) fail() { c.b, c.bad = nil, true }

// skip goes past n bytes that were read.
func (c *codec) skip(n int) {
	if n <= 0 {
		c.fail()
	} else {
		c.b = c.b[n:]
	}
}

func (c *codec) uint(v *uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n := 0
	*v, n = binary.Uvarint(c.b)
	c.skip(n)
}

func (c *codec) int(v *int64) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, *v)
		return
	}
	n := 0
	*v, n = binary.Varint(c.b)
	c.skip(n)
}

func (c *codec) num(v *int) {
	n := int64(*v)
	c.int(&n)
	*v = int(n)
}

func (c *codec) time(t *time.Time) {
	n := int64(0)
	if !t.IsZero() {
		n = t.UnixNano()
	}
	if c.int(&n); n != 0 {
		*t = time.Unix(0, n)
	}
}

// raw is a part of fixed length.
func (c *codec) raw(p []byte) {
	if !c.reading {
		c.b = append(c.b, p...)
	} else {
		copy(p, c.take(len(p)))
	}
}

func (c *codec) take(n int) []byte {
	if n > len(c.b) {
		c.fail()
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

// size is the length of what follows, of which each part takes at least a byte.
func (c *codec) size(n int) int {
	v := uint64(n)
	if c.uint(&v); c.reading && v > uint64(len(c.b)) {
		c.fail()
		return 0
	}
	return int(v)
}

// bytes reads a part of the message, nil if it is empty.
func (c *codec) bytes(p *[]byte) {
	n := c.size(len(*p))
	if !c.reading {
		c.b = append(c.b, *p...)
	} else if *p = c.take(n); n == 0 {
		*p = nil
	}
}

func (c *codec) text(s *string) {
	n := c.size(len(*s))
	if !c.reading {
		c.b = append(c.b, *s...)
	} else {
		*s = string(c.take(n))
	}
}

func (c *codec) bools(list ...*bool) {
	for _, v := range list {
		b := [1]byte{}
		if *v {
			b[0] = 1
		}
		if c.raw(b[:]); b[0] > 1 {
			c.fail()
		}
		*v = b[0] == 1 && !c.bad
	}
}

// items is a list, each item of which one writes or reads.
func items[T any](c *codec, list *[]T, one func(*T)) {
	n := c.size(len(*list))
	for i := 0; i < n && !c.bad; i++ {
		if c.reading {
			*list = append(*list, *new(T))
		}
		one(&(*list)[i])
	}
}

func (c *codec) texts(list *[]string) { items(c, list, c.text) }

func (c *codec) records(list *[][]string) { items(c, list, c.texts) }

func (c *codec) files(list *[]File) {
	items(c, list, func(f *File) {
		c.text(&f.Path)
		c.text(&f.Object)
		mode := uint64(f.Mode)
		c.uint(&mode)
		f.Mode = uint32(mode)
		c.bools(&f.Base)
	})
}

func (c *codec) id(id *ID, t *Token) {
	c.text(&id.Run)
	c.uint(&id.Epoch)
	c.uint(&id.Task)
	if c.num(&id.Number); id.Number < 0 {
		c.fail()
	}
	c.raw(t[:])
}

// facts are the fields of f in their order.
func (c *codec) facts(f *task.Facts) {
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		switch p := v.Field(i).Addr().Interface().(type) {
		case *uint64:
			c.uint(p)
		case *int64:
			c.int(p)
		case *int:
			c.num(p)
		case **int:
			known := *p != nil
			if c.bools(&known); known && c.reading {
				*p = new(int)
			}
			if known {
				c.num(*p)
			}
		case *bool:
			c.bools(p)
		case *time.Time:
			c.time(p)
		case *task.Seconds:
			c.int((*int64)(p))
		case *task.Bytes:
			c.text((*string)(p))
		case *task.Outcome:
			o := uint64(*p)
			c.uint(&o)
			*p = task.Outcome(min(o, uint64(task.Outcomes)))
		default:
			panic("internal error: a fact of a new type")
		}
	}
}

// bundle returns one message of several.
func bundle(notes []note) []byte {
	c := head(kindBundle)
	for i := range notes {
		c.bytes(&notes[i].data)
	}
	return c.b
}

// parts returns the messages of one that may be a bundle. Those of a broken one come up
// to the mistake.
func parts(msg []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c, err := open(msg, kindBundle)
		if err != nil {
			yield(msg)
			return
		}
		for len(c.b) > 0 {
			var part []byte
			if c.bytes(&part); c.bad || !yield(part) {
				return
			}
		}
	}
}
