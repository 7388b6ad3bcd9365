// Package wire turns Go values into bytes and back. A struct is its fields in order, all of
// which must be exported. Both sides must know the same type, as nothing describes it.
// Numbers are varints, and what varies in length begins with its length.
package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"time"
)

// ErrGarbage is the error of Decode.
var ErrGarbage = errors.New("not a message of crew's")

// Append appends what from points to.
func Append(b []byte, from any) []byte {
	c := codec{b: b}
	c.value(reflect.ValueOf(from).Elem())
	return c.b
}

// Decode reads all of b into what to points to, which is its zero value. Slices of bytes
// in that are parts of b. Numbers beyond the bounds are garbage.
func Decode(b []byte, to any) error {
	c := codec{b: b, reading: true}
	if c.value(reflect.ValueOf(to).Elem()); c.bad || len(c.b) > 0 {
		return ErrGarbage
	}
	return nil
}

// The bounds of numbers: of an int, and of those with a size. Two of them can be added, and
// an int multiplied by thousands. Append writes the bound of what is beyond.
const (
	mostInt = 1 << 40
	mostBig = 1 << 62
)

// Bounded reports whether the numbers are within these bounds, and the times of centuries
// around this one, in what v points to. It may have come by JSON.
func Bounded(v any) bool {
	var c codec
	c.value(reflect.ValueOf(v).Elem())
	return !c.bad
}

// codec writes or reads. After the first mistake it reads zeros.
type codec struct {
	b       []byte // written, or not read yet
	reading bool
	bad     bool
}

// value writes v or sets it.
func (c *codec) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if on := c.bool(v.Bool()); c.reading {
			v.SetBool(on)
		}
	case reflect.Int, reflect.Int64:
		most := int64(mostBig)
		if v.Kind() == reflect.Int {
			most = mostInt
		}
		if n := c.int(v.Int(), most); c.reading {
			v.SetInt(n)
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		most := min(mostBig, uint64(1)<<v.Type().Bits()-1)
		c.bad = c.bad || v.Uint() > most
		if n := c.uint(min(v.Uint(), most), most); c.reading {
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
	case reflect.Func: // which JSON leaves out, too
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

// int writes a number, or reads one from -most-1 to most, whose last bit is its sign, as
// binary.AppendVarint does. What it writes it brings within these bounds.
func (c *codec) int(n, most int64) int64 {
	within := max(min(n, most), -most-1)
	c.bad, n = c.bad || n != within, within
	u := c.uint(uint64(n)<<1^uint64(n>>63), uint64(most)<<1|1)
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
		c.bad = c.bad || t.Year() < 1700 || t.Year() > 2200
	}
	if n = c.int(n, math.MaxInt64); n != 0 {
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
