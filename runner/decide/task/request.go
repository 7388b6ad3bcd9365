package task

import "time"

// Request is the line that a client sends to a run over a connection to its control socket.
type Request struct {
	V        int       `json:"v"` // version of the format
	Op       string    `json:"op"`
	Tasks    []uint64  `json:"tasks,omitempty"`
	Key      *Bytes    `json:"key,omitempty"`
	All      bool      `json:"all,omitempty"`      // cancel, wait: all unfinished tasks
	N        int       `json:"n,omitempty"`        // resize: number of workers; explain: most tasks to list, the first ones
	Only     string    `json:"only,omitempty"`     // explain: waiting (first to start first), running, failed or ended
	Relative bool      `json:"relative,omitempty"` // resize: add N
	Last     bool      `json:"last,omitempty"`     // move: after all other tasks instead of before them
	Signal   string    `json:"signal,omitempty"`   // signal: its name without SIG
	Line     Bytes     `json:"line,omitempty"`     // send: the message
	Rest     bool      `json:"rest,omitempty"`     // drain: run all tasks that were read
	Follow   bool      `json:"follow,omitempty"`   // log: until the task has ended; watch: also report the state
	Wait     bool      `json:"wait,omitempty"`     // add: until the tasks have ended
	Add      *Addition `json:"add,omitempty"`
}

// Addition holds the tasks that a request adds, as Values or a Command.
type Addition struct {
	Values   []Bytes   `json:"values,omitempty"` // records or, with Lines, shell command lines
	Lines    bool      `json:"lines,omitempty"`
	Command  []Bytes   `json:"command,omitempty"`   // the words of one command
	Dir      Bytes     `json:"dir,omitempty"`       // the client's working directory
	Env      []Bytes   `json:"env,omitempty"`       // the client's environment
	Key      *Bytes    `json:"key,omitempty"`       // of all tasks; nil for the run's own
	After    []uint64  `json:"after,omitempty"`     // tasks that must have succeeded first
	AfterAny []uint64  `json:"after_any,omitempty"` // tasks that must have ended first, however they end
	At       time.Time `json:"at,omitzero"`         // when they may start
	Timeout  Seconds   `json:"timeout,omitempty"`   // of each attempt; 0 for the run's own, negative for no limit
	Note     Bytes     `json:"note,omitempty"`

	Priority *int `json:"priority,omitempty"` // nil for the run's own

	// Unique leaves out a task while another one with this Unique is unfinished. "" stands for the
	// task's own work. Nil adds all tasks.
	Unique *Bytes `json:"unique,omitempty"`
}
