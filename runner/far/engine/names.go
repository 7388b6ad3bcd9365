// Package engine runs crew's tasks on many machines over NATS: the wire
// format, the executor of a run that submits its tasks, the worker's loop, the hub, and
// what crew engine does. Only crew-engine is made of it, so that crew itself does not
// link NATS.
//
// The submitter keeps the run's core. Its slots are those of the workers that tell of
// themselves now and then, and when somebody asks who is there. That is a lease: a worker that
// cannot tell kills its tasks before submitters take it for lost. An attempt
// is a message to one worker, its output and its end are messages to the submitter. Nobody else
// stores them: who sends one keeps it, and repeats it until it is answered. Where the run has a
// journal, the worker also keeps the end until it is on record there, for the run's next submitter.
// Orders about attempts, and the heartbeats that keep a run's attempts alive, are
// messages that the next one replaces.
//
// Messages go through an outbox, which sends several in one while others are under way.
// What is too long for a message, outputs and files that travel stay with who has them, until whoever
// needs them has asked for each piece.
//
// With --ssh the server is in the submitter's process and listens nowhere: each worker
// speaks with it through its standard input and output, which are those of its ssh, and
// ends when they do.
//
// With --detach the hub fetches the run's tasks into a directory and starts a process that submits them, a
// run with --state whose results go to a file. crew engine attach reads that. The process reaches the hub
// by its standard input and output, and ends with it; the next hub starts another one. What is left there
// for a crew serve is stored like the tasks of a run, until it is in the journal of that.
//
// crew ctl elsewhere starts crew-engine, which carries what it and the control server of a run
// say to each other as orders and answers.
package engine

import (
	"os"
	"strings"
	"time"

	"crew/runner/front/wiring"
)

// anyWorker stands for the worker in the subject of a signature that holds on all.
const anyWorker = "_"

// hubSubject is where a hub of crew engine serve takes orders of its owner.
const hubSubject = "crew.h"

// anyOne stands for every worker in a subject. Its two parts are the user and the name that the
// server lets nobody else use.
const anyOne = "*.*"

// Subjects of messages. A worker is its ID, and user that of the submitter: the server lets nobody else
// send what comes from it, or have what is for it.
func taskSubject(queue, worker, user, run string) string {
	return "crew.t." + queue + "." + worker + "." + user + "." + run
}
func resultSubject(user, run, worker string) string {
	return "crew.r." + user + "." + run + "." + worker
}

// senderOf returns the worker in the subject of a result. The server vouches for its user.
func senderOf(subject string) string {
	if p := strings.SplitN(subject, ".", 5); len(p) == 5 {
		return p[4]
	}
	return ""
}

// Subjects of orders, which are answered: to a worker, to a submitter, and to a hub about runs that are handed
// over.
func orderSubject(queue, worker, user string) string {
	return "crew.w." + queue + "." + worker + "." + user
}
func runSubject(user, run string) string { return "crew.c." + user + "." + run }
func dispatchSubject(user string) string { return "crew.d." + user }

func heartbeatSubject(queue, user string) string { return "crew.b." + queue + "." + user } // Heartbeat of submitters

// userIn returns the user in a subject that ends with it.
func userIn(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// askSubject asks who is there. Workers and runs then tell of themselves.
const askSubject = "crew.a"

// Subjects of what workers and runs tell of themselves, with * for all.
func presenceSubject(queue, worker string) string { return "crew.p." + queue + "." + worker }
func enrolSubject(user, run string) string        { return "crew.e." + user + "." + run }

// Presence is what a worker tells of itself, as JSON: every quarter of TTL, and when it is asked. A
// worker that starts, or goes on after its lease has run out, has a new ID.
type Presence struct {
	Queue    string        `json:"queue"`
	Version  int           `json:"version"`
	ID       string        `json:"id"`   // USER.NAME-RANDOM; part of subjects
	Host     string        `json:"host"` // NAME; CREW_HOST
	Slots    int           `json:"slots"`
	Labels   []string      `json:"labels,omitempty"`
	Offers   string        `json:"offers,omitempty"` // what it has for tasks that need it, such as gpu:2,mem:16
	TTL      time.Duration `json:"ttl"`
	State    string        `json:"state"`              // ready, paused (no slots), draining, gone
	Template string        `json:"template,omitempty"` // digest of its command, in hexadecimal
	Command  string        `json:"command,omitempty"`  // the same for people
	Signed   bool          `json:"signed,omitempty"`   // it runs signed commands
	Since    time.Time     `json:"since"`
	Busy     int           `json:"busy"`
	Done     int64         `json:"done"`
	Failed   int64         `json:"failed"`

	// of a host of --ssh; other runs ignore them

	Mark  string `json:"mark,omitempty"`  // of the host
	After string `json:"after,omitempty"` // ID of the worker before it there, which has ended with all its tasks
}

// The states of a worker.
const (
	ready    = "ready"
	paused   = "paused"
	draining = "draining"
	gone     = "gone" // it has ended: what it was given and has no result has not begun
)

// Enrolment is what a run tells of itself when it is asked, as JSON.
type Enrolment struct {
	Queue    string    `json:"queue"`
	Version  int       `json:"version"`
	Run      string    `json:"run"`
	User     string    `json:"user"` // of the submitter, as a part of subjects
	Name     string    `json:"name,omitempty"`
	Epoch    uint64    `json:"epoch"`
	Host     string    `json:"host"` // of the submitter
	PID      int       `json:"pid"`
	Since    time.Time `json:"since"`
	State    string    `json:"state"`
	Paused   bool      `json:"paused,omitempty"`
	For      string    `json:"for,omitempty"` // the crew serve for which it was left, if it is no run but a request to add tasks
	*Stocked           // of a run that was handed over; Host and PID are the hub's
}

// Stocked is the part that only a run has that was handed over.
type Stocked struct {
	Tasks  uint64 `json:"tasks"` // how many
	Done   int64  `json:"done"`
	Failed int64  `json:"failed"`
	Notice string `json:"notice,omitempty"` // what the hub said last
}

// Terms say how a run that was handed over is submitted. The hub alone has them.
type Terms struct {
	Orders   wiring.Orders `json:"orders"`
	Load     wiring.Load   `json:"load"`
	Template [32]byte      `json:"template"` // digest of the command, whose words JSON may have changed
	Secret   []byte        `json:"secret"`   // what results are believed by
}

// The states of a run.
const (
	runHanding = "handing over" // its tasks are being stored
	runRunning = "running"
	runDone    = "done" // its results wait for crew engine attach
	runLeft    = "left" // it is a request to add tasks, which waits for a crew serve
)

// newEnrolment returns what is told of a run that begins now.
func newEnrolment(queue, name, user string, id identity) Enrolment {
	host, _ := os.Hostname()
	return Enrolment{
		Queue: queue, Version: Version, Run: id.Run, User: user, Name: name, Epoch: id.Epoch, Host: host, PID: os.Getpid(), Since: time.Now(), State: runRunning,
	}
}

// Heartbeat keeps a run's attempts alive, as JSON. Workers end those of a run of which they
// have not heard for three times their TTL, and of older epochs at once.
type Heartbeat struct {
	Version   int    `json:"version"`
	Run       string `json:"run"`
	Epoch     uint64 `json:"epoch"`
	Suspended bool   `json:"suspended,omitempty"` // the submitter stands still: wait for it
	Over      bool   `json:"over,omitempty"`      // the run is over: end what is left and forget it
}
