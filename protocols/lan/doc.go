// Package lan finds nodes on the local network by multicast DNS (RFC 6762, RFC 6763) and connects to
// them (SPEC §10).
//
// A node answers to _allium._udp.local with its peer ID and the addresses on which it listens there, so everyone on the
// network sees the peer ID. It uses IPv4 multicast on interfaces that have a private address.
//
// Invariants:
//
//   - A packet leaves by an interface with a private address only, and names only addresses in the
//     networks of that interface.
//   - An answer counts only if it arrived by an interface from an address in its networks. Of the
//     addresses that it names, only those in these networks are dialed.
//   - The cost of a flood of packets is bounded: the packets a second of each interface, the peers remembered, the
//     dials a second, the dials that wait, and the dials under way. Anything beyond is dropped and counted.
//   - A peer that could not be reached is dialed again after pauses that double.
//   - Every goroutine has ended when Run returns.
//
// Two laptops, walked through: the first sends a query and its own announcement when it starts, and a
// query each minute from then on. The second starts. Its announcement reaches the first, which finds an
// address in the network of that interface, queues a dial, and connects. The query of the second is
// answered after a random part of 100 ms, and finds that they are connected already.
package lan
