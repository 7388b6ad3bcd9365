// Package front is where a command line becomes a run.
//
//   - cli parses words into Options: one row for each option, with its help, its checks and its
//     completion. It knows nothing of running.
//   - wiring makes a plan of the options, opens what the plan needs, runs it, and returns the
//     exit status.
//
// Words come in from main; everything else is built here, connected, and closed here.
//
// Nothing here runs a task or writes a result: it puts together what does.
//
// Begin with cli.Parse and wiring.Main.
package front
