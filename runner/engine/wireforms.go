package engine

import (
	"fmt"
	"iter"
	"time"

	"crew/runner/task"
)

// versionError is the error of a message of another version.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d of crew's wire format, this is version %d: install the same crew on all machines", e.got, Version)
}

// Encode returns the message. Its last bytes are Sig, so what is signed is all before
// them.
func (a *Attempt) Encode() []byte {
	e := head(kindAttempt)
	e.id(a.ID, a.Token)
	e.raw(a.Identity[:])
	e.int(int64(a.Slot))
	e.text(a.Host)
	e.text(a.Key)
	e.texts(a.Argv)
	e.bool(a.Shell)
	e.texts(a.Env)
	e.text(a.Dir)
	e.raw(a.Template[:])
	e.texts(a.Names)
	e.records(a.Records)
	e.text(a.Object)
	e.bytes(a.Stdin)
	e.bool(a.HasStdin)
	e.bool(a.Live)
	e.int(int64(a.Timeout))
	e.int(int64(a.KillAfter))
	e.files(a.Take)
	e.texts(a.Return)
	e.bool(a.Cleanup)
	e.time(a.Expires)
	e.raw(a.Signer[:])
	e.raw(a.Sig[:])
	return e.b
}

// DecodeAttempt reads a message. It does not look at the signature.
func DecodeAttempt(msg []byte) (*Attempt, error) {
	d, err := open(msg, kindAttempt)
	if err != nil {
		return nil, err
	}
	a := &Attempt{}
	d.id(&a.ID, &a.Token)
	d.raw(a.Identity[:])
	a.Slot, a.Host, a.Key = int(d.int()), d.text(), d.text()
	a.Argv, a.Shell, a.Env, a.Dir = d.texts(), d.bool(), d.texts(), d.text()
	d.raw(a.Template[:])
	a.Names = d.texts()
	a.Records = d.records()
	a.Object, a.Stdin, a.HasStdin, a.Live = d.text(), d.bytes(), d.bool(), d.bool()
	a.Timeout, a.KillAfter = time.Duration(d.int()), time.Duration(d.int())
	a.Take, a.Return, a.Cleanup = d.files(), d.texts(), d.bool()
	a.Expires = d.time()
	d.raw(a.Signer[:])
	d.raw(a.Sig[:])
	return a, d.end()
}

// Encode returns the message.
func (c *Chunk) Encode() []byte {
	e := head(kindChunk)
	e.id(c.ID, c.Token)
	e.bool(c.Stderr)
	e.int(c.Offset)
	e.bytes(c.Data)
	return e.b
}

// DecodeChunk reads a message, of which Data is a part.
func DecodeChunk(msg []byte) (*Chunk, error) {
	d, err := open(msg, kindChunk)
	if err != nil {
		return nil, err
	}
	c := &Chunk{}
	d.id(&c.ID, &c.Token)
	c.Stderr, c.Offset, c.Data = d.bool(), d.int(), d.bytes()
	return c, d.end()
}

// Encode returns the message.
func (f *Final) Encode() []byte {
	e := head(kindFinal)
	e.id(f.ID, f.Token)
	e.raw(f.Identity[:])
	e.text(f.Worker)
	e.text(f.Host)
	e.uint(uint64(f.Outcome))
	e.int(int64(f.Code))
	e.int(int64(f.Signal))
	e.text(f.Err)
	e.bool(f.BadCommand)
	e.bool(f.Leaked)
	e.int(int64(f.PID))
	e.int(int64(f.Took))
	e.int(int64(f.User))
	e.int(int64(f.System))
	e.int(f.MaxRSS)
	e.texts(f.Argv)
	e.records(f.Records)
	e.text(f.Object)
	e.text(f.Key)
	e.bytes(f.Stdout)
	e.bytes(f.Stderr)
	e.int(f.StdoutLen)
	e.int(f.StderrLen)
	e.files(f.Returned)
	return e.b
}

// DecodeFinal reads a message, of which the outputs are a part.
func DecodeFinal(msg []byte) (*Final, error) {
	d, err := open(msg, kindFinal)
	if err != nil {
		return nil, err
	}
	f := &Final{}
	d.id(&f.ID, &f.Token)
	d.raw(f.Identity[:])
	f.Worker, f.Host = d.text(), d.text()
	if o := d.uint(); o < uint64(task.Outcomes) {
		f.Outcome = task.Outcome(o)
	}
	if f.Outcome == 0 {
		d.fail()
	}
	f.Code, f.Signal, f.Err, f.BadCommand, f.Leaked = int(d.int()), int(d.int()), d.text(), d.bool(), d.bool()
	f.PID, f.Took, f.User, f.System = int(d.int()), time.Duration(d.int()), time.Duration(d.int()), time.Duration(d.int())
	f.MaxRSS, f.Argv, f.Records, f.Object, f.Key = d.int(), d.texts(), d.records(), d.text(), d.text()
	f.Stdout, f.Stderr = d.bytes(), d.bytes()
	f.StdoutLen, f.StderrLen, f.Returned = d.int(), d.int(), d.files()
	return f, d.end()
}

// bundle returns one message of several.
func bundle(notes []note) []byte {
	e := head(kindBundle)
	for _, n := range notes {
		e.bytes(n.data)
	}
	return e.b
}

// parts returns the messages of one that may be a bundle. Those of a broken one come up
// to the mistake.
func parts(msg []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		d, err := open(msg, kindBundle)
		if err != nil {
			yield(msg)
			return
		}
		for len(d.b) > 0 {
			if part := d.bytes(); d.bad || !yield(part) {
				return
			}
		}
	}
}

func (e *enc) time(t time.Time) {
	if t.IsZero() {
		e.int(0)
	} else {
		e.int(t.UnixNano())
	}
}

func (d *dec) time() time.Time {
	if n := d.int(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

func (e *enc) records(list [][]string) {
	e.uint(uint64(len(list)))
	for _, r := range list {
		e.texts(r)
	}
}

func (d *dec) records() (list [][]string) {
	for n := d.size(); n > 0 && !d.bad; n-- {
		list = append(list, d.texts())
	}
	return list
}

func (e *enc) files(list []File) {
	e.uint(uint64(len(list)))
	for _, f := range list {
		e.text(f.Path)
		e.text(f.Object)
		e.uint(uint64(f.Mode))
		e.bool(f.Base)
	}
}

func (d *dec) files() (list []File) {
	for n := d.size(); n > 0 && !d.bad; n-- {
		list = append(list, File{d.text(), d.text(), uint32(d.uint()), d.bool()})
	}
	return list
}
