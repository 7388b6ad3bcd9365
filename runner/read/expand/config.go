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
	Shell   string     // shell and options that run scripts; "" means /bin/sh, used only where a shell is needed
	Replace string     // placeholder for the record; "" means "{}"
	Names   []string   // names of the columns
	First   []string   // the first record, where columns have no names; none of them can stand in braces
	Fields  bool       // {name} may name an entry of Values.Fields
	Insert  Insert     // where the record goes
	Batch   bool       // a command may take several records
	Outs    []*Text    // files that the command makes, for each of which {out} or {out2} … stands
	Caps    []task.Cap // limits, for whose units at an attempt their names in braces stand
}

// Insert says where a command has the record.
type Insert uint8

// Where the record goes.
const (
	InPlace Insert = iota // only where placeholders are
	AtEnd                 // at the end of a command without placeholders, too
	Nowhere               // placeholders for it stand for nothing
	Refused               // nowhere, since there are only blocks of a stream: placeholders for it are errors
)

const defaultShell = "/bin/sh"

// Validate reports the first error in the configuration that shows without
// compiling it.
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

// Bare reports whether the command holds no placeholder.
func (c Config) Bare() bool {
	return !slices.ContainsFunc(c.Words, func(w string) bool {
		return slices.ContainsFunc(scan(w, &c), piece.isHole)
	})
}

// Program returns the name of the program that every task runs, as Template.Command does,
// but before the names of columns are known. It is "" if it varies by task, or if a shell
// is needed that was not asked for.
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
