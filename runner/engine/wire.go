package engine

import (
	"strconv"
	"time"

	"crew/runner/task"
	"crew/runner/wiring"
)

// Version is the version of everything that submitters, workers and the streams
// share. Those of different versions refuse each other.
const Version = 5

// maxBody limits the length of a message. Longer data travels as an object, or in
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

// name is by what the engine knows an attempt: the messages' IDs and objects.
func (id *ID) name() string {
	b := append(make([]byte, 0, 64), id.Run...)
	b = strconv.AppendUint(append(b, '.'), id.Epoch, 10)
	b = strconv.AppendUint(append(b, '.'), id.Task, 10)
	return string(strconv.AppendInt(append(b, '.'), int64(id.Number), 10))
}

// Attempt asks a worker to run one. It brings either a command (Argv), with a
// signature, or values for the worker's own command.
type Attempt struct {
	ID
	Token    Token
	Identity [16]byte // of the task, with --state
	Slot     int
	Key      string

	// a command

	Argv  []string
	Exec  []string
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
	Protocol  task.Protocol // of the persistent worker that gets Stdin
	Life      wiring.Life   // of that worker
	Live      bool          // output is wanted while the attempt runs
	Timeout   time.Duration
	KillAfter time.Duration
	Take      []File   // to fetch before it starts
	Return    []string // paths to bring back
	Cleanup   bool

	Expires time.Time // of the signature
	Signer  [32]byte  // public key
	Sig     [64]byte  // of all the rest and the subject
}

// fields are those of the message. Its last bytes are Sig, so what is signed is all
// before them.
func (a *Attempt) fields(c *codec) {
	c.id(&a.ID, &a.Token)
	c.raw(a.Identity[:])
	c.num(&a.Slot)
	c.text(&a.Key)
	c.texts(&a.Argv)
	c.texts(&a.Exec)
	c.texts(&a.Env)
	c.text(&a.Dir)
	c.raw(a.Template[:])
	c.texts(&a.Names)
	c.records(&a.Records)
	c.text(&a.Object)
	c.bytes(&a.Stdin)
	p := int(a.Protocol)
	if c.num(&p); p < 0 || p > int(task.JSONProtocol) {
		c.fail()
	}
	a.Protocol = task.Protocol(p)
	c.text(&a.Life.Ready)
	c.int((*int64)(&a.Life.Start))
	c.num(&a.Life.Records)
	c.int((*int64)(&a.Life.Age))
	c.int((*int64)(&a.Timeout))
	c.int((*int64)(&a.KillAfter))
	c.files(&a.Take)
	c.texts(&a.Return)
	c.bools(&a.Shell, &a.HasStdin, &a.Live, &a.Cleanup)
	c.time(&a.Expires)
	c.raw(a.Signer[:])
	c.raw(a.Sig[:])
}

// Encode returns the message.
func (a *Attempt) Encode() []byte { return encode(kindAttempt, a.fields) }

// DecodeAttempt reads a message. It does not look at the signature.
func DecodeAttempt(msg []byte) (*Attempt, error) { return decode(msg, kindAttempt, (*Attempt).fields) }

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

// stream is 0 for stdout and 1 for stderr.
func (k *Chunk) stream() int {
	if k.Stderr {
		return 1
	}
	return 0
}

func (k *Chunk) fields(c *codec) {
	c.id(&k.ID, &k.Token)
	c.bools(&k.Stderr)
	c.int(&k.Offset)
	c.bytes(&k.Data)
}

// Encode returns the message.
func (k *Chunk) Encode() []byte { return encode(kindChunk, k.fields) }

// DecodeChunk reads a message, of which Data is a part.
func DecodeChunk(msg []byte) (*Chunk, error) { return decode(msg, kindChunk, (*Chunk).fields) }

// Final tells how an attempt ended. It comes after all chunks.
type Final struct {
	ID
	Token    Token
	Identity [16]byte

	task.Facts // as its worker knows them; the outcome is Lost if it was handed back, and there is a key only with the next
	BadCommand bool

	// of a task that any worker could take

	Argv    []string
	Records [][]string
	Object  string

	Stdout, Stderr       []byte // what no chunk has brought: all of it, or the rest
	StdoutLen, StderrLen int64  // of chunks and rest
	Returned             []File
}

func (f *Final) fields(c *codec) {
	c.id(&f.ID, &f.Token)
	c.raw(f.Identity[:])
	if c.facts(&f.Facts); c.reading && (f.Outcome == 0 || f.Outcome >= task.Outcomes) {
		c.fail()
	}
	c.bools(&f.BadCommand)
	c.texts(&f.Argv)
	c.records(&f.Records)
	c.text(&f.Object)
	c.bytes(&f.Stdout)
	c.bytes(&f.Stderr)
	c.int(&f.StdoutLen)
	c.int(&f.StderrLen)
	c.files(&f.Returned)
}

// Encode returns the message.
func (f *Final) Encode() []byte { return encode(kindFinal, f.fields) }

// DecodeFinal reads a message, of which the outputs are a part.
func DecodeFinal(msg []byte) (*Final, error) { return decode(msg, kindFinal, (*Final).fields) }

// The kinds of messages on the streams.
const (
	kindAttempt = 'a'
	kindChunk   = 'c'
	kindFinal   = 'f'
	kindBundle  = 'l' // several of the others
	kindBig     = 'b' // the name of an object that holds the message
)
