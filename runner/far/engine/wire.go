package engine

import (
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
)

// Version is the version of everything that submitters, workers and the hub
// share. Those of different versions refuse each other.
const Version = 15

// maxBody limits the length of a message. Longer data is asked for.
const maxBody = outbox.Piece

// chunkSize is the most output that one message holds.
const chunkSize = outbox.Piece

// Token proves that a result comes from the worker that was given the attempt.
type Token [16]byte

// ID names an attempt. Its result counts once.
type ID struct {
	Run    string
	Epoch  uint64 // which of the submitters that the run has had; from 1
	Task   uint64
	Number int
}

// Attempt asks a worker to run one. It brings either a command (Argv), with a
// signature, or values for the worker's own command.
type Attempt struct {
	_ struct{} `cbor:",toarray"`
	ID
	Token    Token
	Keep     bool     // the worker keeps the result until the submitter has it on record
	Identity [16]byte // of the task, with --state
	Slot     int
	Key      string
	Units    []task.Units // that it holds
	Needs    []task.Need  // which the worker gives out
	Marks    []task.Mark  // where these are to stand in a command

	// a command

	Argv  []string
	Exec  []string
	Shell bool
	Env   []string

	// or values

	Template [32]byte // digest of the command that they are for
	Names    []string
	Caps     []string // names of all limits
	Records  [][]string
	Object   string

	Stdin     []byte
	HasStdin  bool
	Protocol  task.Protocol // of the persistent worker that gets Stdin
	Life      wiring.Life   // of that worker
	Live      bool          // output is wanted while the attempt runs
	Timeout   time.Duration
	KillAfter time.Duration
	travel.Trip

	Lasting bool      // the signature holds for all attempts of the task, on whatever worker
	Expires time.Time // of the signature
	Signer  [32]byte  // public key
	Sig     [64]byte  // of all the rest and the subject; the last bytes of the message
}

// Encode returns the message.
func (a *Attempt) Encode() []byte { return encode(kindAttempt, a) }

// DecodeAttempt reads a message. It does not look at the signature.
func DecodeAttempt(msg []byte) (*Attempt, error) {
	a, err := decode[Attempt](msg, kindAttempt)
	if err == nil && (a.Protocol > task.JSONProtocol || slices.ContainsFunc(a.Units, badUnits) || slices.ContainsFunc(a.Needs, badNeed) || a.badMarks() ||
		len(a.Makes) > 0 && (len(a.Temp) != task.TempLen || strings.ContainsAny(a.Temp, "/\x00"))) {
		err = errGarbage
	}
	return a, err
}

func badNeed(n task.Need) bool { return !task.IsCapName(n.Name) || n.N < 1 }

// badMarks reports whether the marks are not those of names in the command, in order.
func (a *Attempt) badMarks() bool {
	word, from := 0, 0
	for _, m := range a.Marks {
		words, i := a.Argv, m.Word
		if i <= task.InExec {
			words, i = a.Exec, task.InExec-i
		}
		if m.Word != word {
			word, from = m.Word, 0
		}
		if i < 0 || i >= len(words) || m.Off < from || m.Off >= len(words[i]) || m.Temp {
			return true
		}
		name, _, ends := strings.Cut(words[i][m.Off:], "}")
		if !ends || !strings.HasPrefix(name, "{") || !task.IsCapName(name[1:]) {
			return true
		}
		from = m.Off + len(name) + 1
	}
	return false
}

// badUnits reports whether units are none that a run can have.
func badUnits(u task.Units) bool {
	return !task.IsCapName(u.Name) || slices.ContainsFunc(u.Held, func(s string) bool { return s == "" || !task.Plain(s) })
}

// Big is an attempt that is too long for a message.
type Big struct {
	ID
	Token       Token
	User        string
	travel.Blob // the message
}

// Chunk is a part of the output of an attempt that runs. Those of a stream come in order.
type Chunk struct {
	_ struct{} `cbor:",toarray"`
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

// Encode returns the message.
func (k *Chunk) Encode() []byte { return encode(kindChunk, k) }

// DecodeChunk reads a message, of which Data is a part.
func DecodeChunk(msg []byte) (*Chunk, error) { return decode[Chunk](msg, kindChunk) }

// Final tells how an attempt ended.
type Final struct {
	_ struct{} `cbor:",toarray"`
	ID
	Token    Token
	Identity [16]byte

	task.Facts // as its worker knows them; the outcome is Lost if it was handed back, and one that is Cancelled has an Error if somebody there cancelled it by name
	BadCommand bool

	Stdout, Stderr Written
	Returned       []travel.File
}

// Written is an output, or where there is more than the message has room for, a blob.
type Written struct {
	Text []byte
	travel.Blob
}

// outputs returns both.
func (f *Final) outputs() [2]*Written { return [...]*Written{&f.Stdout, &f.Stderr} }

// blobs returns what the worker has to keep for the submitter.
func (f *Final) blobs() (list []travel.Blob) {
	for _, o := range f.outputs() {
		if o.Name != "" {
			list = append(list, o.Blob)
		}
	}
	for _, r := range f.Returned {
		list = append(list, r.Blob)
	}
	return list
}

// Encode returns the message.
func (f *Final) Encode() []byte { return encode(kindFinal, f) }

// DecodeFinal reads a message, of which the outputs are a part.
func DecodeFinal(msg []byte) (*Final, error) {
	f, err := decode[Final](msg, kindFinal)
	if err == nil && badFacts(&f.Facts) {
		err = errGarbage
	}
	return f, err
}

// badFacts reports whether they are those of no attempt.
func badFacts(f *task.Facts) bool {
	return f.Outcome == 0 || f.Outcome >= task.Outcomes || f.Duration < 0 || f.Attempt < 0 || slices.ContainsFunc(f.Units, badUnits)
}

// The kinds of messages of attempts.
const (
	kindAttempt = 'a'
	kindBig     = 'b'
	kindKept    = 'k' // the ID of an attempt whose result is on record
	kindChunk   = 'c'
	kindFinal   = 'f'
)
