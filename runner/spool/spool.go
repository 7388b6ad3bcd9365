// Package spool keeps the output of tasks until it is shown: in memory within
// one budget for the whole run, past it in one unlinked temporary file that all
// outputs share.
//
// It is a room of its own beside the house plan because two others need it:
// proc fills buffers, and sink holds rendered results back under --keep-order.
package spool
