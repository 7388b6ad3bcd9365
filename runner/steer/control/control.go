// Package control is the server through which clients watch and control a running crew and add tasks to
// it, and the client side of it.
//
// The server listens on a Unix socket. It makes the socket once a run is a little older than most runs
// get, and until then it is only a timer. After that it is one goroutine that accepts connections, and one
// for each connection, which answers the request by calling the run. No part of the run waits for a
// client: sinks put events into bounded buffers, and a client that follows output reads it from where the
// run keeps it.
//
// The wire format is in wire.go, and the places of sockets in dir.go.
package control

import (
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
)

// Config describes the run of a Server.
type Config struct {
	About Hello                         // Name, Command and Dir, and with a Feed also Values and MaxQueued
	Do    func(task.Command) task.Reply // carries out a command in the run
	// Feed adds all tasks of an addition, or none. It calls numbered with their IDs, in order,
	// before any of them can end, and returns once they are accepted. known are the IDs of tasks
	// that were there already, see Addition.Unique. Feed is safe for concurrent use, and nil if the
	// run takes no tasks.
	Feed func(a *Addition, numbered func(ids, known []uint64)) error
	Details
	Delay time.Duration // from Serve until the socket is made, or NoSocket

	lineTimeout, partingGap time.Duration // 0 for the constants; tests set them
}

// NoSocket as Config.Delay means that the server has no socket and serves only the clients that are
// passed to ServeClient.
const NoSocket = -1

// Details holds functions that tell clients more than the state of the run. Each may be nil.
type Details struct {
	// Live returns the output of the running attempt of a task, and the attempt's number, or 0
	// if none runs. The outputs may be nil; the caller closes them. Live is nil if output is not
	// kept.
	Live func(id uint64) (stdout, stderr task.Live, attempt int)
	// Ended returns the records of the last n wanted ends of tasks, the latest last. Tasks without a
	// record are missing. The outputs need not be closed.
	Ended func(n int, wanted func(id uint64, o task.Outcome) bool) []task.EndedTask
	// Total returns the number of tasks of the whole input, and how many of them are done,
	// including tasks that earlier runs have done and that were not read yet.
	Total func(*task.Stats) (tasks, done int64, known bool)
	// Curves returns the figures over time of the run and, for a queue, of earlier runs.
	Curves func() []series.Curves
	// PIDs returns the process IDs of the running tasks.
	PIDs func() map[uint64]int
	// Signal sends a signal to the processes of running tasks. It returns the tasks that run.
	Signal func(ids []uint64, sig syscall.Signal) []uint64
	// Send hands a line to the persistent worker of a running task, in a slot.
	Send func(slot int, id uint64, line string) error
	// Said returns the last lines that persistent workers wrote on stderr for tasks that they
	// have not answered yet.
	Said func() map[uint64][]byte
}

// Request and Addition are the requests of clients.
type (
	Request  = task.Request
	Addition = task.Addition
)

// Hello describes a run.
type Hello struct {
	PID       int        `json:"pid"`
	Name      string     `json:"name,omitempty"`
	Command   task.Bytes `json:"command,omitempty"`
	Dir       task.Bytes `json:"dir,omitempty"`
	Feeds     bool       `json:"feeds,omitempty"`  // the run takes tasks
	Values    bool       `json:"values,omitempty"` // they are values or JSON, and not commands
	MaxQueued int        `json:"most,omitempty"`   // how many tasks fit into an empty queue
	Since     time.Time  `json:"since,omitzero"`
	State     string     `json:"state"` // as in Status, or Silent
	Err       error      `json:"-"`     // why the run is Silent

	Progress

	path string                 // of the socket
	dial func() (socket, error) // connects to a run without a socket here; otherwise nil
}

// Silent is the state of a run that does not answer, for example because it is stopped.
const Silent = "silent"

// Progress counts tasks.
type Progress struct {
	Total   *int64 `json:"total"`             // of the whole input; null if unknown
	Done    int64  `json:"done"`              // succeeded, failed or skipped
	Failed  int64  `json:"failed"`            // part of Done
	Skipped int64  `json:"skipped,omitempty"` // part of Done
	Dropped int64  `json:"dropped,omitempty"` // cancelled or not run
	Running int64  `json:"running"`
	Waiting int64  `json:"waiting"` // all other tasks that were read
}

// Status is a snapshot in the form for JSON, with figures that are computed from it.
type Status struct {
	task.Snapshot
	State   string       `json:"state"` // running, paused, draining, stopping or done
	Since   time.Time    `json:"since"`
	Elapsed task.Seconds `json:"elapsed"` // without suspensions

	Progress

	Outcomes map[string]int64 `json:"outcomes"`          // tasks that ended, by outcome
	Earlier  map[string]int64 `json:"earlier,omitempty"` // the part of Outcomes that earlier runs finished
	Retried  int64            `json:"retried"`           // tasks that were retried after a failure
	Lost     int64            `json:"lost,omitempty"`    // attempts that were lost with their worker
	InputEnd bool             `json:"input_end"`         // no more tasks will come
	Held     int64            `json:"held"`              // ended, but not shown yet
	Rate     float64          `json:"rate"`              // tasks per second
	ETA      *task.Seconds    `json:"eta"`               // time that the rest takes; null if unknown
	Ended    []task.Where     `json:"ended,omitempty"`   // tasks that ended or failed recently, the latest first
}
