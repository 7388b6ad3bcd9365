// Package wire turns Go values into CBOR (RFC 8949) and back. Unlike JSON it keeps strings that are
// not UTF-8 as they are.
package wire

import (
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// ErrGarbage is the error of Decode.
var ErrGarbage = errors.New("not a message of crew's")

var (
	encoding, _ = cbor.EncOptions{Time: cbor.TimeRFC3339NanoUTC}.EncMode()
	decoding, _ = cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: math.MaxInt32}.DecMode()
)

// Append appends a value that is data alone.
func Append(b []byte, v any) []byte {
	text, err := encoding.Marshal(v)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return append(b, text...)
}

// Decode reads all of b into what to points to. Numbers beyond the bounds are garbage.
func Decode(b []byte, to any) error {
	if decoding.Unmarshal(b, to) != nil || !Bounded(to) {
		return ErrGarbage
	}
	return nil
}

// Rest returns what follows the first value in b, or nil if that is broken.
func Rest(b []byte) []byte {
	var first cbor.RawMessage
	rest, _ := decoding.UnmarshalFirst(b, &first)
	return rest
}

// The bounds of numbers: of an int, and of those with a size. Two of them can be added, and
// an int multiplied by thousands.
const (
	mostInt = 1 << 40
	mostBig = 1 << 62
)

// Bounded reports whether the numbers are within these bounds, and the times of centuries
// around this one, in what v points to.
func Bounded(v any) bool { return bounded(reflect.ValueOf(v)) }

func bounded(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Int:
		return -mostInt <= v.Int() && v.Int() <= mostInt
	case reflect.Int64:
		return -mostBig <= v.Int() && v.Int() <= mostBig
	case reflect.Uint64:
		return v.Uint() <= mostBig
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
