// Package control is the socket of a run: the server through which a running crew
// is seen, steered and fed, and the client of it.
//
// The socket is made once a run is a little older than most are, and until then the
// server is a timer. Afterwards it is one goroutine that waits to accept, and one
// for each connection. Each request is answered by the goroutine of its connection,
// which calls the run's door. Nobody waits for a connection: what a sink has to tell
// goes to bounded buffers, and a follower of output reads it where the run keeps it.
//
// The wire format is in wire.go, and where sockets are in dir.go. Package net is not
// used: the start of crew would pay for it.
package control

import (
	"os"
	"time"

	"crew/runner/decide/task"
)

// Config says what a run offers.
type Config struct {
	About Hello                         // Name, Command and Dir; with a Feed Values and Most, too
	Do    func(task.Command) task.Reply // the run's door
	// Feed adds all tasks of an addition, or none. It calls numbered with their IDs, in
	// order, before any of them can end, and returns when they are accepted. Feed is nil if
	// the run takes no tasks, and safe for concurrent use.
	Feed func(a *Addition, numbered func(ids []uint64)) error
	See  Sight
	Soon time.Duration // how long after Serve the socket is made, or Never

	lineTime, gap time.Duration // 0 for the constants; others in tests
}

// Never is for a server without a socket, which is only told of its clients.
const Never = -1

// Sight lets a client see more of a run than its state. Each function may be nil.
type Sight struct {
	// Live returns the output of the running attempt of a task and its number, which is
	// 0 if none runs. The caller closes both, which may be nil. Live is nil if output is not
	// kept.
	Live func(id uint64) (stdout, stderr task.Live, attempt int)
	// Ended returns what is recorded of tasks that have ended, without those of which that
	// is nothing. The caller closes the outputs.
	Ended func(ids ...uint64) map[uint64]task.EndedTask
	// Latest returns what is recorded of the n tasks that ended last, or of those that failed,
	// the latest last, without outputs.
	Latest func(n int, failed bool) []task.EndedTask
	// Total returns the number of tasks of the whole input.
	Total func() (tasks int64, known bool)
	// PIDs returns the process IDs of the running tasks.
	PIDs func() map[uint64]int
	// Said returns the ends of what persistent workers have written on stderr for tasks that
	// they have not answered.
	Said func() map[uint64][]byte
}

// Request and Addition are what a client asks for.
type (
	Request  = task.Request
	Addition = task.Addition
)

// longest is how many bytes of a command line are told.
const longest = 1000

// Hello describes a run.
type Hello struct {
	PID     int        `json:"pid"`
	Name    string     `json:"name,omitempty"`
	Command task.Bytes `json:"command,omitempty"`
	Dir     task.Bytes `json:"dir,omitempty"`
	Feeds   bool       `json:"feeds,omitempty"`  // the run takes tasks
	Values  bool       `json:"values,omitempty"` // they are values or JSON, and not commands
	Most    int        `json:"most,omitempty"`   // how many have room in an empty queue
	Since   time.Time  `json:"since,omitzero"`
	State   string     `json:"state"` // as in Status, or "silent" if the run does not answer

	Progress

	path string                   // of the socket
	dial func() (*os.File, error) // connects to a run that has none here; or nil
}

// Silent is the state of a run that does not answer, for example because it is
// stopped.
const Silent = "silent"

// Progress counts tasks.
type Progress struct {
	Total   *int64 `json:"total"`             // of the whole input; null if that is not known
	Done    int64  `json:"done"`              // succeeded, failed or skipped
	Failed  int64  `json:"failed"`            // those of them that failed
	Skipped int64  `json:"skipped,omitempty"` // those of them that were skipped
	Dropped int64  `json:"dropped,omitempty"` // cancelled or not run
	Running int64  `json:"running"`
	Waiting int64  `json:"waiting"` // read, and none of these
}

// Status is the JSON form of a snapshot, with what follows from that.
type Status struct {
	task.Snapshot
	State   string       `json:"state"` // running, paused, draining, stopping or done
	Since   time.Time    `json:"since"`
	Elapsed task.Seconds `json:"elapsed"` // without the time for which the run was suspended

	Progress

	Outcomes map[string]int64 `json:"outcomes"`          // tasks that ended, by outcome
	Earlier  map[string]int64 `json:"earlier,omitempty"` // those of them that an earlier run finished
	Retried  int64            `json:"retried"`           // tasks that were tried again after a failure
	Lost     int64            `json:"lost,omitempty"`    // attempts that were lost with their worker
	InputEnd bool             `json:"input_end"`         // no more tasks will come
	Held     int64            `json:"held"`              // ended, but their results are not shown yet
	Rate     float64          `json:"rate"`              // tasks a second
	ETA      *task.Seconds    `json:"eta"`               // how long the rest takes; null if that is not known
	Ended    []task.Where     `json:"ended,omitempty"`   // tasks that failed or ended lately, the latest first
}
