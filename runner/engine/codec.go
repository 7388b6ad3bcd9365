package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"time"
)

var errGarbage = errors.New("not a message of crew's")

// versionError is the error of a message of another version.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d of crew's wire format, this is version %d: install the same crew on all machines", e.got, Version)
}

// codec writes a message or reads one, by the fields of a struct in their order. Numbers
// are varints, and what varies in length begins with its length. After the first mistake
// in a message it reads zeros.
type codec struct {
	b       []byte // written, or not read yet
	reading bool
	bad     bool
}

// head begins a message of a kind.
func head(kind byte) *codec { return &codec{b: append(make([]byte, 0, 256), 'c', 'r', Version, kind)} }

// encode returns the message of a kind that holds what from points to.
func encode(kind byte, from any) []byte {
	c := head(kind)
	c.value(reflect.ValueOf(from).Elem())
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
func decode[T any](msg []byte, kind byte) (*T, error) {
	c, err := open(msg, kind)
	if err != nil {
		return nil, err
	}
	to := new(T)
	if c.value(reflect.ValueOf(to).Elem()); c.bad || len(c.b) > 0 {
		return nil, errGarbage
	}
	return to, nil
}

// value writes v or sets it.
func (c *codec) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if on := c.bool(v.Bool()); c.reading {
			v.SetBool(on)
		}
	case reflect.Int, reflect.Int64:
		if n := c.int(v.Int()); c.reading {
			v.SetInt(n)
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		if n := c.uint(v.Uint(), 1<<v.Type().Bits()-1); c.reading {
			v.SetUint(n)
		}
	case reflect.String:
		if n := c.size(v.Len()); c.reading {
			v.SetString(string(c.take(n)))
		} else {
			c.b = append(c.b, v.String()...)
		}
	case reflect.Array: // of bytes
		if c.reading {
			copy(v.Bytes(), c.take(v.Len()))
		} else {
			c.b = append(c.b, v.Bytes()...)
		}
	case reflect.Slice:
		c.slice(v)
	case reflect.Pointer:
		known := c.bool(!v.IsNil())
		if known && c.reading {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if known {
			c.value(v.Elem())
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			c.time(t)
			return
		}
		c.fields(v)
	default:
		panic("internal error: no message holds a " + v.Kind().String())
	}
}

// fields writes or reads those fields of a struct that are not zero, after a bit for each
// field: of an attempt most are.
func (c *codec) fields(v reflect.Value) {
	n, at := v.NumField(), len(c.b)
	if c.reading {
		given := c.take((n + 7) / 8)
		for i := 0; i < n && !c.bad; i++ {
			if given[i/8]>>(i%8)&1 == 1 {
				c.value(v.Field(i))
			}
		}
		return
	}
	for range (n + 7) / 8 {
		c.b = append(c.b, 0)
	}
	for i := range n {
		if f := v.Field(i); !f.IsZero() {
			c.b[at+i/8] |= 1 << (i % 8)
			c.value(f)
		}
	}
}

// slice reads an empty one as nil, and bytes as a part of the message.
func (c *codec) slice(v reflect.Value) {
	n := c.size(v.Len())
	switch bytes := v.Type().Elem().Kind() == reflect.Uint8; {
	case n == 0:
	case bytes && c.reading:
		v.SetBytes(c.take(n))
	case bytes:
		c.b = append(c.b, v.Bytes()...)
	default:
		for i := 0; i < n && !c.bad; i++ {
			if c.reading {
				v.Grow(1)
				v.SetLen(i + 1)
			}
			c.value(v.Index(i))
		}
	}
}

// uint writes n, or reads a number up to most.
func (c *codec) uint(n, most uint64) uint64 {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, n)
		return n
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 || n > most {
		c.fail()
		return 0
	}
	c.b = c.b[size:]
	return n
}

// int writes or reads a number whose last bit is its sign, as binary.AppendVarint does.
func (c *codec) int(n int64) int64 {
	u := c.uint(uint64(n)<<1^uint64(n>>63), math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

func (c *codec) bool(on bool) bool {
	n := uint64(0)
	if on {
		n = 1
	}
	return c.uint(n, 1) == 1
}

func (c *codec) time(t *time.Time) {
	n := int64(0)
	if !t.IsZero() {
		n = t.UnixNano()
	}
	if n = c.int(n); n != 0 {
		*t = time.Unix(0, n)
	}
}

// size is the length of what follows, of which each part takes at least a byte.
func (c *codec) size(n int) int { return int(c.uint(uint64(n), uint64(len(c.b)))) }

// take reads n bytes.
func (c *codec) take(n int) []byte {
	if n > len(c.b) {
		c.fail()
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *codec) fail() { c.b, c.bad = nil, true }

// bundle returns one message of several.
func bundle(messages []message) []byte {
	c := head(kindBundle)
	for i := range messages {
		c.size(len(messages[i].data))
		c.b = append(c.b, messages[i].data...)
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
			if part := c.take(c.size(0)); c.bad || !yield(part) {
				return
			}
		}
	}
}
