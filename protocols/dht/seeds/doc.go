// Package seeds keeps a node in touch with the network: it dials the seeds of
// the configuration and of a signed manifest (SPEC §5), asks each for peers
// near the node, and remembers peers for a day on which no seed answers.
//
// A round dials the seeds that are not connected, in random order, 200 ms
// apart and four at a time. After a round with seeds missing the next comes a
// tier later: 1, 5, 15, 60, 300 s, ± 20 %; else after 300 s. A round that ends
// with nobody to hold on to, neither a seed nor a remembered peer, dials up to
// eight remembered peers at the same pace. Losing the last of them starts a
// round soon, at the first tier if the node had somebody for a minute, else
// where the tiers stand: a seed that accepts and hangs up is not dialled in a
// loop.
//
// Invariants:
//
//   - a seed that is connected is not dialled, and one whose manifest has
//     expired neither; connections that exist stay;
//   - a manifest takes effect when a configured authority signed it, it has not
//     expired, and none newer was accepted before, over restarts too; one that
//     is refused leaves the last accepted one in force until it expires;
//   - a seed is asked for peers once per connection and at most every 10
//     minutes; at most 20 peers of an answer are used;
//   - the goroutine of Run alone reads and writes the datastore, and what it
//     reads is checked like a stranger's message.
package seeds
