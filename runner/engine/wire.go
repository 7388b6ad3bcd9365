package engine

import (
	"encoding/binary"
	"errors"
	"time"

	"crew/runner/task"
)

// Version is the version of everything that submitters, workers and the streams
// share. Those of different versions refuse each other.
const Version = 1

// maxBody is how long a message may be. What is longer travels as an object, or in
// several messages. Servers refuse more than 1 MiB by default.
const maxBody = 512 << 10

// chunkSize is the most output that one message holds.
const chunkSize = 256 << 10

// Token proves that a result comes from the worker that was given the attempt.
type Token [16]byte

// ID names an attempt. Its result counts once.
type ID struct {
	Run    string
	Epoch  uint64 // which of the submitters that the run has had; from 1
	Task   uint64
	Number int
}

// Attempt is what a worker is given to run. It brings either a command (Argv), with a
// signature, or values for the worker's own.
type Attempt struct {
	ID
	Token    Token
	Identity [16]byte // of the task, with --state
	Slot     int
	Host     string // of the worker that it is for; empty if any may take it
	Key      string

	// a command

	Argv  []string
	Shell bool
	Env   []string
	Dir   string

	// or values

	Template [32]byte // digest of the command that they are for
	Names    []string
	Records  [][]string
	Object   string

	Stdin     []byte
	HasStdin  bool
	Live      bool // output is wanted while the attempt runs
	Timeout   time.Duration
	KillAfter time.Duration
	Take      []File   // to fetch before it starts
	Return    []string // paths to bring back
	Cleanup   bool

	Expires time.Time // of the signature
	Signer  [32]byte  // public key
	Sig     [64]byte  // of all the rest and the subject
}

// File is a file that travels through the object store.
type File struct {
	Path   string
	Object string
	Mode   uint32
	Base   bool // it serves all tasks of the run
}

// Chunk is a part of the output of an attempt. Those of a stream come in order.
type Chunk struct {
	ID
	Token  Token
	Stderr bool
	Offset int64
	Data   []byte
}

// Final is how an attempt ended. It comes after all chunks.
type Final struct {
	ID
	Token    Token
	Identity [16]byte
	Worker   string // its Presence.ID
	Host     string

	Outcome    task.Outcome // Lost if it was handed back
	Code       int
	Signal     int
	Err        string
	BadCommand bool
	Leaked     bool
	PID        int
	Took       time.Duration
	User       time.Duration
	System     time.Duration
	MaxRSS     int64
	Argv       []string // of a task that brought values

	// of a task that any worker could take

	Records [][]string
	Object  string
	Key     string

	Stdout, Stderr       []byte // what no chunk has brought: all of it, or the rest
	StdoutLen, StderrLen int64  // of chunks and rest
	Returned             []File
}

// The kinds of messages on the streams.
const (
	kindAttempt = 'a'
	kindChunk   = 'c'
	kindFinal   = 'f'
	kindBundle  = 'l' // several of the others
)

var errGarbage = errors.New("not a message of crew's")

// enc appends to a message. Numbers are varints, and what varies in length begins with
// its length.
type enc struct{ b []byte }

func (e *enc) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *enc) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *enc) raw(p []byte)  { e.b = append(e.b, p...) }
func (e *enc) bytes(p []byte) {
	e.uint(uint64(len(p)))
	e.b = append(e.b, p...)
}
func (e *enc) text(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}
func (e *enc) texts(list []string) {
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}
func (e *enc) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// dec reads a message. After the first mistake it yields zeros.
type dec struct {
	b   []byte
	bad bool
}

func (d *dec) fail() { d.b, d.bad = nil, true }

func (d *dec) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// size reads the length of what follows, of which each part takes at least a byte.
func (d *dec) size() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *dec) take(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *dec) raw(to []byte) { copy(to, d.take(len(to))) }

// bytes returns a part of the message, nil if it is empty.
func (d *dec) bytes() []byte {
	if p := d.take(d.size()); len(p) > 0 {
		return p
	}
	return nil
}

func (d *dec) text() string { return string(d.take(d.size())) }

func (d *dec) texts() (list []string) {
	for n := d.size(); n > 0 && !d.bad; n-- {
		list = append(list, d.text())
	}
	return list
}

func (d *dec) bool() bool {
	p := d.take(1)
	if len(p) == 1 && p[0] > 1 {
		d.fail()
	}
	return len(p) == 1 && p[0] == 1
}

func head(kind byte) *enc { return &enc{[]byte{'c', 'r', Version, kind}} }

// open returns the body of a message of a kind.
func open(msg []byte, kind byte) (*dec, error) {
	if len(msg) < 4 || msg[0] != 'c' || msg[1] != 'r' {
		return nil, errGarbage
	}
	if msg[2] != Version {
		return nil, &versionError{int(msg[2])}
	}
	if msg[3] != kind {
		return nil, errGarbage
	}
	return &dec{b: msg[4:]}, nil
}

// end returns an error unless the whole message was read, without a mistake.
func (d *dec) end() error {
	if d.bad || len(d.b) > 0 {
		return errGarbage
	}
	return nil
}

func (e *enc) id(id ID, t Token) {
	e.text(id.Run)
	e.uint(id.Epoch)
	e.uint(id.Task)
	e.uint(uint64(id.Number))
	e.raw(t[:])
}

func (d *dec) id(id *ID, t *Token) {
	id.Run, id.Epoch, id.Task, id.Number = d.text(), d.uint(), d.uint(), int(d.uint())
	d.raw(t[:])
	if id.Number < 0 {
		d.fail()
	}
}
