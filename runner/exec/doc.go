// Package exec runs attempts on this machine.
//
//   - proc runs an attempt as a process: start, capture, timeout, stop, exit status. Its guardian
//     kills what is left should crew itself be killed.
//   - coproc runs attempts as records of persistent workers.
//   - target makes output files whole or absent, and tells which are up to date.
//   - spool keeps output until it is shown. jobserver speaks make's protocol. machine measures
//     load and memory.
//   - kernel is the only place where operating systems differ.
//
// An attempt comes in through runner.Executor, and leaves as a task.Result.
//
// Nothing here retries, or decides what starts next.
//
// Begin with proc.Local.Run and coproc.Workers.Run.
package exec
