package task

import "time"

// Request is the line that a client sends to a run over a connection of its control socket.
type Request struct {
	V        int       `json:"v"` // the version of the format
	Op       string    `json:"op"`
	Tasks    []uint64  `json:"tasks,omitempty"`
	Key      *Bytes    `json:"key,omitempty"`
	All      bool      `json:"all,omitempty"`      // cancel, wait: all tasks that have not ended
	N        int       `json:"n,omitempty"`        // resize: the number of workers; explain: the most tasks to list
	Only     string    `json:"only,omitempty"`     // explain: waiting, running, failed or ended
	Relative bool      `json:"relative,omitempty"` // resize: N more
	Last     bool      `json:"last,omitempty"`     // move: behind all others, instead of before them
	Rest     bool      `json:"rest,omitempty"`     // drain: run what has been read
	Follow   bool      `json:"follow,omitempty"`   // log: until the task has ended; watch: tell the state, too
	Wait     bool      `json:"wait,omitempty"`     // add: until the tasks have ended
	Add      *Addition `json:"add,omitempty"`
}

// Addition holds the tasks that a request adds: Values or a Command.
type Addition struct {
	Values  []Bytes   `json:"values,omitempty"` // a record each, or, with Lines, a shell command line each
	Lines   bool      `json:"lines,omitempty"`
	Command []Bytes   `json:"command,omitempty"` // the words of one command
	Dir     Bytes     `json:"dir,omitempty"`     // the client's working directory
	Env     []Bytes   `json:"env,omitempty"`     // the client's environment
	Key     *Bytes    `json:"key,omitempty"`     // of all tasks; nil for the run's own
	After   []uint64  `json:"after,omitempty"`   // tasks that must have succeeded first
	At      time.Time `json:"at,omitzero"`       // when they may start
	Timeout Seconds   `json:"timeout,omitempty"` // of their attempts; 0 for the run's own, negative for no limit
	Note    Bytes     `json:"note,omitempty"`

	Priority *int `json:"priority,omitempty"` // of all tasks; nil for the run's own
}
