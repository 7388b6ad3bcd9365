// Package wire encodes Go values as CBOR (RFC 8949) and decodes them. Unlike JSON, CBOR keeps strings
// that are not valid UTF-8 as they are.
package wire

import (
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// ErrGarbage is returned by Decode for input that it refuses.
var ErrGarbage = errors.New("not a crew message")

var (
	encoding, _ = cbor.EncOptions{Time: cbor.TimeRFC3339NanoUTC}.EncMode()
	decoding, _ = cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: math.MaxInt32}.DecMode()
)

// Append appends the encoding of v to b. It panics if v cannot be encoded, for instance because it
// holds a function or a channel.
func Append(b []byte, v any) []byte {
	text, err := encoding.Marshal(v)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return append(b, text...)
}

// Decode decodes all of b into the value that to points to. It returns ErrGarbage if b is malformed or
// contains a number or time out of bounds; see Bounded.
func Decode(b []byte, to any) error {
	if decoding.Unmarshal(b, to) != nil || !Bounded(to) {
		return ErrGarbage
	}
	return nil
}

// Rest returns the bytes of b after its first value. It returns nil if that value is malformed.
func Rest(b []byte) []byte {
	var first cbor.RawMessage
	rest, _ := decoding.UnmarshalFirst(b, &first)
	return rest
}

// The bounds of an int, and of an int64 or uint64. They are small enough that two numbers can be
// added, and an int multiplied by a million, without overflow.
const (
	maxInt = 1 << 40
	maxBig = 1 << 62
)

// Bounded reports whether all numbers in the value that v points to are within ±maxInt or ±maxBig, and
// all times are zero or in the years 1700 to 2200. It does not look into maps, arrays and interfaces.
func Bounded(v any) bool { return bounded(reflect.ValueOf(v)) }

func bounded(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Int:
		return -maxInt <= v.Int() && v.Int() <= maxInt
	case reflect.Int64:
		return -maxBig <= v.Int() && v.Int() <= maxBig
	case reflect.Uint64:
		return v.Uint() <= maxBig
	case reflect.Pointer:
		return v.IsNil() || bounded(v.Elem())
	case reflect.Slice:
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
			if !bounded(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			t := v.Interface().(time.Time)
			return t.IsZero() || 1700 <= t.Year() && t.Year() <= 2200
		}
		for i := range v.NumField() {
			if !bounded(v.Field(i)) {
				return false
			}
		}
	}
	return true
}
