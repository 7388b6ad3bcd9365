// Package decide holds what decides, and the words that everything else speaks.
//
//   - task is the vocabulary: Task, Attempt, Result, Outcome, Event, Stats, Command, Snapshot.
//   - core is the state machine of a run: what is read, what starts where, what follows from the
//     end of an attempt, how the run ends, and why nothing starts.
//
// The scheduling policies and the table of limits, which core asks, are in the package sched.
// Facts come in through core.Core.Step, which returns what to do.
//
// Nothing here reads a clock, does I/O, locks or starts a goroutine: package runner does that.
//
// Begin with task.Task, core.Core and core.Core.Step.
package decide
