package task

// Outcome is how an attempt or a task ended: one of a closed set.
type Outcome uint8

// The outcomes. The zero value is invalid, so an unset Outcome is noticed.
const (
	_           Outcome = iota
	OK                  // exit status 0
	Exit                // another exit status
	Signal              // killed by a signal that crew did not send
	Timeout             // ended by crew because its time was over
	StartFailed         // no process came to be
	Cancelled           // ended by crew because the run or a person said so
	NotRun              // admitted, and never started, or not started again after a failed attempt
	Outcomes            // the number of outcomes, counting the invalid zero
)

var outcomeNames = [Outcomes]string{
	OK: "ok", Exit: "exit", Signal: "signal", Timeout: "timeout",
	StartFailed: "start-failed", Cancelled: "cancelled", NotRun: "not-run",
}

// String is the outcome's name as it stands in the man page and in JSON.
func (o Outcome) String() string {
	if o == 0 || o >= Outcomes {
		return "unknown"
	}
	return outcomeNames[o]
}

// Failed says whether the outcome counts as a failure of the task. Cancelled
// and NotRun do not: the task was not given its chance.
func (o Outcome) Failed() bool {
	return o == Exit || o == Signal || o == Timeout || o == StartFailed
}

// HasCode says whether an attempt that ended so has an exit status.
func (o Outcome) HasCode() bool { return o == OK || o == Exit || o == StartFailed }
