// Package read is the way in: it turns input and the command line into tasks.
//
//   - input splits lines, columns, CSV, JSON and blocks of a stream into records, and combines
//     sources (:::, :::+, ::::).
//   - expand compiles the command template once, and fills it in for each record: into words,
//     or into a script with the values beside it.
//
// Data comes in as bytes and leaves as task.Task, which runner reads through its Source.
//
// Nothing here starts a process, or reads further than it is asked to. No value is ever written
// into a script: a script refers to values by name.
//
// Begin with input.Tasks and expand.Template.
package read
