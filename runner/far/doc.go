// Package far runs tasks on other machines. Everything here belongs to the program crew-engine,
// which crew starts when it needs it; crew itself links none of it.
//
//   - engine is the submitter, the worker and the hub, which talk over NATS.
//   - ssh starts and keeps workers on the hosts of -S.
//   - outbox repeats small messages until they are answered. travel fetches big ones and files
//     piece by piece. wire encodes both.
//   - address finds the hub, and credentials say who may do what there.
//
// An attempt comes in through runner.Executor on one machine, and into a run of crew worker as a
// task on another. Its result goes the same way back.
//
// Nothing here decides what starts: the core of the submitting run does. The hub stores nothing
// but detached runs and requests for a crew serve.
//
// Begin with the package comment of engine, in subjects.go. In engine, submit*.go is the submitter,
// work*.go the worker, and hub*.go and dispatch.go the hub.
package far
