// Package kernel is where systems differ. On Linux it replaces parts of Go's standard
// library that cost too much here. Each trick earns its keep. These are the times that a run takes without it,
// relative to one with it, measured interleaved on two processors:
//
//   - starting processes with clone3(2) and a prepared list of system calls
//     (Spawner): 1.6 for no-op tasks, 1.10 for /bin/true;
//   - pinning a brief task and its thread to one processor (Pins): 1.26 and 1.00, and
//     1.4 for cat as a worker;
//   - signal handlers in assembly (Take): 1.07 and 1.03, and 1.13 for one task.
//
// The tricks need amd64 or arm64. What needs Linux is in files named x_linux.go; the
// portable form of the same, in x_other.go, stands on what POSIX systems share. On Linux the
// build tag crew_portable selects that one, too, so that it can be tested. What each system
// calls by another name is in os_linux.go, os_bsd.go and their like.
package kernel
