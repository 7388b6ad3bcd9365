// Package steer is how a running crew is watched and controlled from outside.
//
//   - control is the socket that crew ctl talks to, its client, and the protocol between them.
//   - control/crew-top is the program behind crew ctl top.
//
// A request comes in as a line of JSON, becomes a task.Command through the door of package
// runner, and is answered from task.Reply and task.Snapshot.
//
// Nothing here keeps state of its own about tasks: it asks the core, the journal or the sinks.
//
// Begin with control.Serve and control.Config.
package steer
