package engine

import (
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
)

// Version is the version of everything that submitters, workers and the hub exchange. Different
// versions refuse each other.
const Version = 23

// maxMessage limits the length of a message in bytes. The receiver fetches longer data.
const maxMessage = outbox.Piece

// chunkSize is the most bytes of an output in a message of a running attempt.
const chunkSize = outbox.Piece / 2

// Token proves that a result comes from the worker to which the attempt was sent.
type Token [16]byte

// ID identifies an attempt. Its result counts once.
type ID struct {
	Run    string
	Epoch  uint64 // number of the submitter, from 1
	Task   uint64
	Number int
	Sent   uint64 // tells apart the attempts of this number, if some came back
}

// Attempt asks a worker to run an attempt. It brings either a command (Argv), with a signature, or
// values for the worker's own command.
type Attempt struct {
	_ struct{} `cbor:",toarray"`
	ID
	Token    Token
	Whole    travel.Blob // the encoded attempt, if it is too long for a message; this one then has only ID, Token and User
	Keep     bool        // the worker must keep the result until the submitter has recorded it
	Identity [16]byte    // of the task, with --state
	Slot     int
	Key      string
	Units    []task.Units // units that the submitter has allotted
	Needs    []task.Need  // units that the worker has to allot

	// a command

	Marks []task.Mark // in Argv and Exec

	Argv  []string
	Exec  []string
	Shell bool
	Env   []string

	// or values

	Template [32]byte // digest of the command that takes the values
	Names    []string
	Caps     []string // names of all limits of the run
	Records  [][]string
	Object   string

	Stdin     []byte
	HasStdin  bool
	Protocol  task.Protocol // of the persistent worker that reads Stdin
	Life      task.Life     // of that worker
	Live      bool          // send output while the attempt runs
	Timeout   time.Duration
	KillAfter time.Duration
	Bound     task.Bound
	travel.Trip

	Lasting bool      // the signature covers all attempts of the task, on any worker
	Expires time.Time // of the signature
	Signer  [32]byte  // public key
	Sig     [64]byte  // of all other fields and the subject; the last bytes of the message
}

// bad reports whether the fields contradict each other. It does not check the signature.
func (a *Attempt) bad() bool {
	return a.Protocol > task.JSONProtocol || slices.ContainsFunc(a.Units, badUnits) || slices.ContainsFunc(a.Needs, badNeed) ||
		len(a.Makes) > 0 && (len(a.Temp) != task.TempLen || strings.ContainsAny(a.Temp, "/\x00"))
}

func badNeed(n task.Need) bool { return !task.IsCapName(n.Name) || n.N < 1 }

// badUnits reports whether no attempt can hold u.
func badUnits(u task.Units) bool {
	return !task.IsCapName(u.Name) || slices.ContainsFunc(u.Held, func(s string) bool { return s == "" || !task.Plain(s) })
}

// AttemptOrder is an order about an attempt that its worker has.
type AttemptOrder struct {
	_ struct{} `cbor:",toarray"`
	ID
	Op string // opCancel, opKill, opReturn or opRecorded
}

// Final is how an attempt ended. Without an Outcome the attempt is still running, and the outputs are parts.
type Final struct {
	_ struct{} `cbor:",toarray"`
	ID
	Token    Token
	Identity [16]byte

	task.Facts // Lost: the worker returned it unbegun; Cancelled with an Error: crew ctl on the worker cancelled it
	BadCommand bool

	Stdout, Stderr FinalOutput
	Returned       []travel.File
}

// FinalOutput is an output of an attempt: Text, or a blob if it is too long for the message.
type FinalOutput struct {
	At   int64 // position of Text in the output, if the attempt is running
	Text []byte
	travel.Blob
}

// outputs returns stdout and stderr.
func (f *Final) outputs() [2]*FinalOutput { return [...]*FinalOutput{&f.Stdout, &f.Stderr} }

// blobs returns the blobs that the worker has to keep for the submitter.
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

func (f *Final) bad() bool { return f.Outcome != 0 && badFacts(&f.Facts) }

// badFacts reports whether no attempt can have ended with f.
func badFacts(f *task.Facts) bool {
	return f.Outcome == 0 || f.Outcome >= task.Outcomes || f.Duration < 0 || f.Attempt < 0 || slices.ContainsFunc(f.Units, badUnits)
}

// The kinds of messages of attempts.
const (
	kindAttempt = 'a'
	kindOrder   = 'o'
	kindFinal   = 'f'
)
