// Package testkit provides helpers for the tests of several packages. Only tests
// import it.
//
//   - [Start] runs a service until the test ends. [Eventually] waits for a condition.
//   - [Pipe] and [NewNetwork] make libp2p streams in memory: with deadlines, latency,
//     bounded windows, reads of one byte, cuts and resets with a code. They use no
//     sockets, and wait only on a sync.Cond or a timer. So they run inside a
//     testing/synctest bubble. The error of a deadline is a timeout but, as in yamux,
//     not os.ErrDeadlineExceeded.
//   - [Explore] runs a scenario of concurrent code in every order of its actions.
//
// # One test over streams
//
// Pipe returns both ends of one stream. NewNetwork returns a network, and
// [Network.Host] adds hosts to it. One host registers a handler and another opens
// streams to it. Each handler runs in its own goroutine, and [Network.Close] waits for
// all of them. [Stream.Cut] drops the bytes that one end writes. [Network.Disconnect]
// resets all streams between two hosts.
//
// # One search
//
// Explore is a depth-first search by replay. Running code cannot return to an earlier
// state, so each order runs from the start:
//
//  1. Explore calls the scenario with an [Order].
//  2. The scenario waits until all its goroutines are blocked (testing/synctest.Wait).
//     Then it calls [Order.Pick] to learn which of the possible actions comes next.
//  3. When no action is left, the scenario checks the outcome and returns.
//  4. Explore changes the last choice that has an untried alternative and calls the
//     scenario again. It ends when there is none.
//
// A scenario may describe its whole state to Pick. If another order reached the same
// state before, the scenario need not continue.
//
// If a replay does not reach the same point as before, the search fails. Only the
// scenario bounds a search: by the actions that it offers, and how often. A search
// without an error has run every order, except beyond states that it met before.
package testkit
