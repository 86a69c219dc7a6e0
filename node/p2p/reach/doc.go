// Package reach decides at which addresses a node is announced, and keeps relays for a node that cannot be
// dialled. It replaces go-libp2p's autorelay and relay manager, which follow AutoNAT v1 and wait for minutes:
// here the confirmed addresses of AutoNAT v2 decide (docs/adr/0025-reach.md).
//
// Invariants:
//
//   - A node that talks with the Internet announces only public addresses: confirmed ones, those of its interfaces
//     until peers find them unreachable, those of listen.announce, and its relays.
//   - A node in a private network, a testnet or a LAN without Internet announces all of its addresses.
//   - At most [Relays] reservations are kept, in distinct IP groups. They are given up when the node is
//     direct: an address of an interface, or one that the router mapped, is confirmed, or listen.announce is
//     set. A confirmed address that peers merely observed keeps them: behind a router that lets in whom the
//     node has talked to, only those who confirm get through.
//   - The watcher of events never waits, so it cannot block the library's emitters.
//
// One node behind a router, step by step: it connects to a seed, whose identify offers the relay service.
// [Service.Run] wakes, finds no confirmed address, and reserves a place at the seed. The address through the
// seed is announced. A peer dials it; the node sees a relayed connection and punches a hole. Bulk takes the
// direct connection, or the relayed one up to the limit of the relay ([Bulk]).
package reach
