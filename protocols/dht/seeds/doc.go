// Package seeds keeps a node connected to the network. It dials the seeds of the
// configuration and of a signed manifest (SPEC §5), asks each for peers near the node, and
// remembers peers for the case that no seed answers.
//
// A round ([Bootstrapper.round]) dials the seeds that are not connected, in random order,
// 200 ms apart and four at a time. If seeds are missing after a round, the next one follows
// after 1, 5, 15, 60 and then every 300 s, ± 20 %; otherwise after 300 s. If neither a seed
// nor a remembered peer is connected, the round also dials up to eight remembered peers, at
// the same rate. When the last of them is lost, a round follows soon: after 1 s if the node
// was connected for a minute, otherwise after the next interval of the series. A seed that
// accepts connections and closes them is therefore not dialed in a tight loop.
//
// Invariants:
//
//   - A connected seed is not dialed, nor is one whose manifest has expired. Existing
//     connections stay.
//   - A manifest takes effect if a configured authority signed it, it has not expired, and
//     no newer one was accepted before, also across restarts. When a manifest is refused,
//     the last accepted one stays in force until it expires.
//   - A seed is asked for peers once per connection and at most every 10 minutes. At most
//     20 peers of a response are used.
//   - Only the goroutine of Run uses the datastore. It checks what it reads like a message
//     from a stranger.
package seeds
