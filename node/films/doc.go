// Package films keeps what Go's execution tracer saw while a lookup was slow, for `allium why`.
//
// Invariants:
//
//   - The tracer runs while there are lookups. It holds the latest 5 s, at most some 6 MiB. A
//     film of more than 8 MiB is not kept.
//   - At most one film is made a minute, and at most [MaxFilms] are kept, all in RAM, compressed. The
//     oldest leaves.
//   - [Recorder.Freeze] never waits. Calls that it refuses are counted.
//
// One film: resolver/trace marks each lookup in the tracer, and calls [Recorder.Freeze] at the end of one that took far
// longer than others of its class. The goroutine of [Recorder.Run] takes the tracer's window, in which the lookup is a
// task with its ID. [Recorder.Film] returns the film of a lookup.
package films
