// Package linux replaces parts of Go's standard library that cost too much here.
// Each trick earns its keep. These are the times that a run takes without it,
// relative to one with it, measured interleaved on two processors:
//
//   - starting processes with clone3(2) and a prepared list of system calls
//     (Spawner): 1.6 for no-op tasks, 1.10 for /bin/true;
//   - pinning a brief task and its thread to one processor (Pins): 1.26 and 1.00, and
//     1.4 for cat as a worker;
//   - signal handlers in assembly (Take): 1.07 and 1.03, and 1.13 for one task.
//
// The tricks need amd64 or arm64. On other processors, other.go does the same
// with the standard library.
package kernel
