// Package deadline reads and writes streams under deadlines that a slow peer
// cannot stretch for ever.
//
// # Invariants
//
//   - A stream is never read with an expired deadline: yamux then may lose the
//     window update that belongs to the bytes it hands out. Bytes that come as
//     the deadline passes count, the deadline does not.
//   - A peer that owes bytes, or has bytes to take, stands still for at most the
//     patience of its [MinRate], and in the long run is not slower than its rate.
//   - The clock of a MinRate runs only while the peer is waited for. What the node
//     itself needs, to find an object or to get its turn, is not the peer's.
//
// # One frame, walked through
//
// Between frames the owner of a [Reader] waits as long as an idle stream may,
// with ReadUntil and an end of its own. The first bytes of a frame come, and
// from the next read on Until is that end: 5 s, say. Each byte moves it by what
// the byte takes at the rate, at most to 5 s from then. When the frame is whole
// the owner calls Rest. A [Writer] does the same for each call of Write; its
// owner calls Rest when nothing waits any more, or Pause when more will come.
package deadline
