package task

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is how an attempt or a task ended: one of a closed set.
type Outcome uint8

// The outcomes. The zero value is invalid, so an unset Outcome is noticed.
const (
	_           Outcome = iota
	OK                  // exit status 0
	Exit                // another exit status
	Signal              // killed by a signal that crew did not send
	Timeout             // ended by crew at its timeout
	StartFailed         // no process was started, or its block could not be read to the end
	Cancelled           // ended by crew because the run ended or a command asked for it
	NotRun              // not started, or not started again after a failed attempt
	Lost                // its worker was lost, and its fate is unknown
	// BadAnswer means that a persistent worker broke its protocol: its answer was invalid, or it ended
	// without an answer and without reporting a failure.
	BadAnswer
	NoOutput // it succeeded, but a file that it should have made is missing or cannot be stored
	Skipped  // it did not run, since its targets are up to date
	Memory   // ended by crew because too little memory was left
	TooMuch  // it wrote more than its Bound allows
	Outcomes // number of outcomes, including the invalid zero
)

var outcomeNames = strings.Fields("unknown ok exit signal timeout start-failed cancelled not-run lost bad-answer no-output skipped memory too-much")

// String returns the outcome's name as used in the man page and in JSON.
func (o Outcome) String() string { return outcomeNames[o%Outcomes] }

// MarshalText implements encoding.TextMarshaler.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Outcome) UnmarshalText(name []byte) error {
	i := slices.Index(outcomeNames[1:], string(name))
	if i < 0 {
		return fmt.Errorf("%q is no outcome", name)
	}
	*o = Outcome(i + 1)
	return nil
}

// Failed reports whether the outcome counts as a failure of the task. Cancelled and NotRun do not: the
// task had no chance to succeed.
func (o Outcome) Failed() bool {
	switch o {
	case Exit, Signal, Timeout, StartFailed, Lost, BadAnswer, NoOutput, Memory, TooMuch:
		return true
	}
	return false
}

// Replaced reports whether an attempt with the outcome is replaced by the next one, if one follows:
// the next attempt does not use up a retry.
func (o Outcome) Replaced() bool { return o == Lost || o == Memory }

// Succeeded reports whether tasks that come after one with this outcome may start.
func (o Outcome) Succeeded() bool { return o == OK || o == Skipped }

// HasCode reports whether a result with this outcome has an exit status.
func (o Outcome) HasCode() bool { return o == OK || o == Exit || o == StartFailed }
