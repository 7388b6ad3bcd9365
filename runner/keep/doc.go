// Package keep holds what outlives a run.
//
//   - journal is the record in the directory of --state: what was admitted, started, ended and
//     shown. A killed run resumes from it, and a queue keeps its tasks in it.
//   - series holds figures over time, such as how many tasks ran in each second, and keeps those of a
//     queue in a file.
//   - trust opens, creates and replaces files only where no other user could interfere.
//
// During a run the core decides, and the journal is only told, through runner.Recorder. When a run is
// resumed, journal.Source.Next decides which tasks are done. A line that says that something ended is
// written after the output that it refers to.
//
// Begin with journal.Open and, for what a resumed run makes of a task, journal.Source.Next.
package keep
