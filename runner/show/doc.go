// Package show is how a run is presented: on a terminal, in files, in reports and in a browser.
//
//   - sink writes what people and pipes read: output, results directories, job logs, progress and
//     the digest of failures.
//   - report writes JUnit files and the annotations of CI servers.
//   - history folds the events of finished and running runs into figures.
//   - view renders these figures as pages, traces and trends. web serves them; crew-web is its
//     program.
//
// Events come in through runner.Sink. Every total comes from one fold, task.Stats.
//
// Nothing here changes what a run does, except that a sink that cannot write ends it.
//
// Begin with sink.Stdout, sink.Digest and history.Fold.
package show
