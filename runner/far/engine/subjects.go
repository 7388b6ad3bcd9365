// Package engine runs crew's tasks on other machines over NATS. It holds the wire format, the executor
// of a run that submits its tasks, the loop of a worker, the hub, and the commands of crew engine.
// Only crew-engine imports it, so crew itself does not link NATS.
//
// The submitter keeps the run's core. The slots of the run belong to workers, which announce
// themselves periodically and on request. An announcement renews the worker's lease: a worker that
// cannot announce itself kills its tasks before submitters consider it lost. An attempt and the orders
// about it are messages to one worker, and its output and its end are messages to the submitter.
// Nothing else stores them: the sender keeps a message and repeats it until it is answered. Heartbeats
// keep the attempts of a run alive.
//
// If the run has a journal, the worker also keeps the result of an attempt until the journal records
// it. A later submitter of the run then collects it. Each submitter is an epoch of the run, counted
// from 1.
//
// Messages go through an outbox, which bundles several in one while others are under way. Messages
// that are too long, outputs and files stay with their owner until the peer that needs them has
// fetched every piece.
//
// With --ssh the server is in the submitter's process and listens nowhere: each worker is connected
// through the standard input and output of its ssh, and ends when they close.
//
// With --detach the hub fetches the run's tasks into a directory and starts a process that submits
// them as a run with --state. Its results go to a file that crew engine attach reads. That process
// reaches the hub through its standard input and output, and ends with it; the next hub starts another
// one. A request to add tasks to a crew serve is stored like the tasks of a run until the journal of
// that crew serve holds them. If the server is not a hub, the client hands it over to the crew serve.
//
// crew ctl on another machine starts crew-engine, which relays the conversation with the control
// server of a run as orders and answers.
package engine

import (
	"os"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/front/wiring"
)

// signedForAll replaces the worker in the subject of a signature that holds for all workers.
const signedForAll = "_"

// hubSubject is where a hub takes orders from its owner.
const hubSubject = "crew.h"

// allWorkers matches every worker in a subject. Its two parts are the user and the name; the server
// lets no other user publish or subscribe with them.
const allWorkers = "*.*"

// Subjects of messages. worker is the ID of a worker, and user the user of the submitter: the server
// lets no other user send messages in their name, or receive messages addressed to them.
func taskSubject(queue, worker, user, run string) string {
	return "crew.t." + queue + "." + worker + "." + user + "." + run
}
func resultSubject(user, run, worker string) string {
	return "crew.r." + user + "." + run + "." + worker
}

// senderOf returns the ID of the worker in the subject of a result. The server has checked its user.
func senderOf(subject string) string {
	if p := strings.SplitN(subject, ".", 5); len(p) == 5 {
		return p[4]
	}
	return ""
}

// Subjects of orders, each of which gets an answer: to a worker, to a submitter, and to a hub about
// detached runs.
func orderSubject(queue, worker, user string) string {
	return "crew.w." + queue + "." + worker + "." + user
}
func runSubject(user, run string) string { return "crew.c." + user + "." + run }
func dispatchSubject(user string) string { return "crew.d." + user }

func heartbeatSubject(queue, user string) string { return "crew.b." + queue + "." + user } // for Heartbeat

// userIn returns the user that ends a subject.
func userIn(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// askSubject asks all workers and runs to announce themselves.
const askSubject = "crew.a"

// Subjects of the announcements of workers and runs, with * for all.
func presenceSubject(queue, worker string) string { return "crew.p." + queue + "." + worker }
func runInfoSubject(user, run string) string      { return "crew.e." + user + "." + run }

// Presence announces a worker, as JSON: every quarter of TTL, and on request. A worker that starts, or
// continues after its lease has run out, takes a new ID.
type Presence struct {
	Queue   string        `json:"queue"`
	Version int           `json:"version"`
	ID      string        `json:"id"`   // USER.NAME-RANDOM; part of subjects
	Host    string        `json:"host"` // NAME; CREW_HOST
	Slots   int           `json:"slots"`
	Labels  []string      `json:"labels,omitempty"`
	Offers  string        `json:"offers,omitempty"` // units for the --needs of tasks, as in gpu:2,mem:16
	TTL     time.Duration `json:"ttl"`
	State   string        `json:"state"` // ready, paused (no slots), draining, gone
	Job
	Since  time.Time `json:"since"`
	Busy   int       `json:"busy"`
	Done   int64     `json:"done"`
	Failed int64     `json:"failed"`
	After  string    `json:"after,omitempty"` // its ID before, or its user for all others of the user, as on a host of --ssh: they have ended, with all their tasks
	Mark   string    `json:"mark,omitempty"`  // identifies a host of --ssh to the run
}

// Job describes the tasks that a worker runs, or that a run has.
type Job struct {
	Template string `json:"template,omitempty"` // digest of its command, in hexadecimal; "" without one
	Command  string `json:"command,omitempty"`  // its command for people
	Signed   bool   `json:"signed,omitempty"`   // signed commands
}

// The states of a worker.
const (
	ready    = "ready"
	paused   = "paused"
	draining = "draining"
	gone     = "gone" // it has ended: attempts without a result have not begun
)

// RunInfo announces a run when asked, as JSON.
type RunInfo struct {
	Queue     string    `json:"queue"`
	Version   int       `json:"version"`
	Run       string    `json:"run"`
	User      string    `json:"user"` // the submitter's user, as a part of subjects
	Name      string    `json:"name,omitempty"`
	Epoch     uint64    `json:"epoch"`
	Host      string    `json:"host"` // the submitter's machine
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
	State     string    `json:"state"`
	Paused    bool      `json:"paused,omitempty"`
	Job                 // zero in a request to add tasks
	Refused   []string  `json:"refused,omitempty"` // added by crew engine status: why workers of the queue run none of its tasks
	For       string    `json:"for,omitempty"`     // "" for a run; for a request to add tasks, the crew serve it is left for
	*Progress           // for a detached run or a request; Host and PID are then the hub's
}

// Progress is the part of a RunInfo that only detached runs have, and requests to add tasks, where Tasks
// is 0.
type Progress struct {
	Tasks  uint64 `json:"tasks"` // all tasks of the run
	Done   int64  `json:"done"`
	Failed int64  `json:"failed"`
	Notice string `json:"notice,omitempty"` // the last notice about the run
}

// RunOptions say how a detached run is submitted. Only the hub has them.
type RunOptions struct {
	Orders   wiring.Orders `json:"orders"`
	Attempts []byte        `json:"attempts"` // the encoded messageBuilder.base
	Window   int           `json:"window"`   // records that a slot holds at a time
}

// The states of a run.
const (
	runHanding = "handing over" // its tasks are being stored
	runRunning = "running"
	runWaiting = "waiting" // the hub will start a process that submits its tasks
	runDone    = "done"    // its results are kept for crew engine attach
	runLeft    = "left"    // a request to add tasks, which waits for a crew serve
)

// newRunInfo returns the announcement of a run that begins now.
func newRunInfo(queue, name, user string, id identity) RunInfo {
	return RunInfo{
		Queue: queue, Version: Version, Run: id.Run, User: user, Name: name, Epoch: id.Epoch, Host: task.ThisHost(), PID: os.Getpid(), Since: time.Now(), State: runRunning,
	}
}

// Heartbeat keeps a run's attempts alive, as JSON. A worker ends the attempts of a run that has sent no
// heartbeat for three times the worker's TTL; see endSilentRuns.
type Heartbeat struct {
	Version   int    `json:"version"`
	Run       string `json:"run"`
	Epoch     uint64 `json:"epoch"`
	Suspended bool   `json:"suspended,omitempty"` // the submitter's process is suspended: keep the attempts
	Over      bool   `json:"over,omitempty"`      // the run is over: end its attempts and forget it
}
