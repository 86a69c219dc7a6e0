// Package profiling serves profiles and execution traces of the process on the admin listener.
//
// Invariants:
//
//   - One profile is made at a time. Another request gets busy at once.
//   - A profile takes at most [MaxSeconds], and an execution trace at most 32 MiB, whichever is less.
//   - A profile is in RAM until it is whole, so that a slow client never holds the profiler.
//
// One request: the listener checks the capability for the operation profile. [Handlers] take the gate,
// record the request in the audit log, collect for the seconds that the client asks for, and send what
// `go tool pprof` or `go tool trace` reads. A client that leaves ends the collection.
package profiling
