// Package testkit holds what tests of several packages share. Only tests import
// it.
//
//   - [Start] runs a service until the test ends; [Eventually] waits for a condition.
//   - [Pipe] and [NewNetwork] are libp2p streams in memory: deadlines, latency,
//     bounded windows, reads of one byte, cuts and resets with a code. Nothing
//     touches a socket, and every wait is on a sync.Cond or a timer, so that all
//     of it runs inside a testing/synctest bubble. The error of a deadline is a
//     timeout that is not os.ErrDeadlineExceeded, as yamux's is not.
//   - [Explore] runs a scenario of concurrent code in every order of its actions.
//
// # One test over streams
//
// Pipe returns both ends of one stream. NewNetwork returns hosts: one registers a
// handler and another opens streams to it, each handler in a goroutine of its own
// that Network.Close joins. [Stream.Cut] makes the bytes of one end vanish;
// [Network.Disconnect] resets all streams between two hosts.
//
// # One search
//
// Explore is a depth-first search by replay: code cannot be set back, so each
// order is run from the start. It calls the scenario with an empty [Order]. At
// each point the scenario waits until all its goroutines wait, which
// testing/synctest can tell, and asks [Order.Pick] which of the possible actions
// comes next, until none is left; then it checks the outcome. Explore takes back
// the last choice that has an alternative and calls the scenario again, until
// there is none. A scenario that can describe its whole state need not go on from
// one that was reached before in another order.
//
// A replay that does not reach the same point as before fails the search. The
// only bound of a search is its scenario: the actions it offers and how often. A
// search that does not fail has run them all.
package testkit
