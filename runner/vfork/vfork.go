// Package vfork starts a process as cheaply as Linux can: clone3(2) with a
// shared address space, and a child that does nothing but a list of system
// calls which its parent has prepared, the last of them execve(2). No Go code
// runs in the child, so that nothing there can need a stack, a lock or the
// runtime, and it inherits no signal handler, so that none need be taken back.
// syscall.ForkExec spends a fifth of a small task on what this does without:
// sixty rt_sigaction(2), and a pipe to hear of a failure, which here is memory.
//
// It knows Linux on amd64 and arm64; elsewhere the package is empty.
//
// It imports nothing but unsafe, and must not: a package without imports whose
// path comes before "syscall" is initialised before that (The Go Programming
// Language Specification, "Package initialization"), and only until then can
// it see the soft limit on open files that tasks are to get back.
package vfork
