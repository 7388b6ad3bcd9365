// Package catch takes signals of the process, as os/signal does, for less: that
// package starts three threads and switches between two of them for each signal
// that it takes, a tenth of the time of a run of one small task. Here a handler
// of two lines of assembly writes the signal's number into a pipe, and a
// goroutine that the runtime's poller wakes reads it.
//
// What is taken stays taken, until Reset or the end of the process; a program
// that the process starts begins with the default. Do not use os/signal for the
// same signals. Where the package has no handler, on other processors than amd64
// and arm64, os/signal does its work.
package catch
