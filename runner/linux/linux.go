// Package linux does below Go's standard library what that does at too high a
// price. A trick stays here as long as it earns its keep, measured interleaved on
// two processors, as the time that a run takes without it:
//
//   - starting processes with clone3(2) and a prepared list of system calls
//     (Spawner): 1.6 times as long for no-op tasks, 1.10 for /bin/true;
//   - pinning a brief task and its thread to one processor (Pins): 1.26, 1.00;
//   - signal handlers of our own (Take): 1.07, 1.03, and 1.13 for one task.
//
// They need Linux on amd64 or arm64. On other processors the files named _other
// do the same with the standard library.
package linux
