// Package streamtest is libp2p streams in memory, for tests: deadlines,
// latency, bounded windows, reads of one byte, cuts and resets with a code.
//
// Invariants: nothing here touches a socket, and every wait is on a sync.Cond
// or a timer, so that all of it runs inside a testing/synctest bubble; a
// deadline's error is a timeout that is not os.ErrDeadlineExceeded, as yamux's
// is not.
//
// One test, walked through: [Pipe] gives both ends of one stream; or
// [NewNetwork] gives hosts, of which one registers a handler and another opens
// streams to it, each handler in a goroutine of its own that Network.Close
// joins. [Stream.Cut] makes one end's bytes vanish, [Network.Disconnect] resets
// all streams between two hosts.
package streamtest
