// Package deadline reads and writes streams with deadlines that follow from a minimum
// rate, so that a slow peer cannot hold a stream for ever.
//
// # Invariants
//
//   - A stream is never read after its deadline has expired, because yamux may then
//     lose the window update for the bytes that it returns. If bytes arrive at the
//     moment of the deadline, they are returned without an error.
//   - A peer that must send or take bytes may pause for at most the patience of its
//     [MinRate], and on average it is not slower than the rate.
//   - The clock of a MinRate runs only while the node waits for the peer. Time that the
//     node itself needs, to find an object or for other requests, does not count.
//
// # One frame, walked through
//
// Between frames the owner of a [Reader] calls ReadUntil with the end of the idle
// timeout. When the first bytes of a frame have arrived, it passes Until instead, which
// is the patience from now: 5 s, say. Each byte moves that end by the time that a byte
// takes at the rate, but never beyond 5 s from then. When the frame is whole, the owner
// calls Rest. A [Writer] does the same in each call of Write. Its owner calls Rest when
// nothing is left to write, and Pause when more will follow.
package deadline
