package expand

import (
	"errors"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// Config describes a command template.
type Config struct {
	Words   []string   // the command; if empty, each record is a shell command line
	Shell   string     // shell and options that run scripts; "" means /bin/sh, used only if a shell is needed
	Replace string     // placeholder for the record; "" means "{}"
	Columns            // that {name} may stand for
	Insert  Insert     // where the record is inserted
	Batch   bool       // a command may take several records
	Outs    []*Text    // files that the command makes: {out}, {out2} and so on stand for them
	Caps    []task.Cap // named limits: {gpu} stands for the units of limit gpu that an attempt holds
}

// Columns says which {name} is a placeholder.
type Columns struct {
	Names  []string // names of the columns, if they have names
	First  []string // first record, if columns have no names: its values are refused as {name}
	Fields bool     // {name} may name an entry of Values.Fields
}

// Insert says where a command takes the record.
type Insert uint8

// The values of Insert.
const (
	InPlace Insert = iota // only at placeholders
	AtEnd                 // at placeholders, or at the end of a command without any
	Nowhere               // placeholders for the record are replaced by nothing
	Refused               // the input is split into blocks: placeholders for a record are errors
)

const defaultShell = "/bin/sh"

// Validate reports the first error that can be found without compiling the command.
func (c Config) Validate() error {
	if c.Shell != "" && strings.Trim(c.Shell, " \t") == "" {
		return errors.New("the shell has no name: give its path")
	}
	all := strings.Join(c.Words, "")
	if strings.Contains(all, "\x00") {
		return errors.New("the command holds a NUL byte: leave it out")
	}
	if len(c.Words) > 0 && (c.Words[0] == "" || strings.Trim(all, " \t\n") == "") {
		return errors.New("the command is empty: name a program, or give no command to run each record as a command line")
	}
	return nil
}

// Bare reports whether the command has no placeholder.
func (c Config) Bare() bool {
	return !slices.ContainsFunc(scan(strings.Join(c.Words, "\x00"), &c), piece.isPlaceholder)
}

// Program returns the name of the program that every task runs, like Template.Command,
// but can be called before the names of columns are known. It returns "" if the program
// varies by task, or if the command needs a shell and none was named.
func (c Config) Program() string {
	if shell := strings.Fields(c.Shell); len(shell) > 0 {
		return shell[0]
	}
	t, err := New(c)
	if err != nil || t.implied {
		return ""
	}
	name, _ := t.Command()
	return name
}
