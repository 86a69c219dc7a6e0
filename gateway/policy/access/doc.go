// Package access decides with which peers a node has to do: listen.allow and listen.deny name
// files of peer IDs, addresses and networks (CIDR), one a line; "#" begins a comment.
//
//	12D3KooW…             a peer
//	203.0.113.7           an address
//	203.0.113.0/24        a network, also of IPv6
//
// A peer is denied if an entry of listen.deny names it or its address. If listen.allow names a
// file, a peer is also denied unless an entry there names it or its address. So an empty file
// allows nobody.
//
// Invariants:
//
//   - All files are put in force together, or none is. A malformed line fails them, and what was
//     read before stays in force.
//   - A check reads an immutable set. It takes no lock, does no I/O and never waits.
//   - The address of a relay says nothing about the peer behind it: entries of listen.allow that
//     are addresses do not count for a relayed connection. A denied relay is denied to all.
//   - No connection to a denied peer stays: the gater refuses new ones, and those that a change
//     denies are closed by Run.
//   - Memory is bounded: [MaxEntries] entries from [MaxBytes] bytes of files.
//
// One change, walked through: the operator adds an ID to the file of listen.deny. Within a second
// Run reads the files, swaps the set, and closes the connections of that peer. A connection that
// was in its handshake meanwhile is found by the notification that it has opened. The DHT, hints
// and gossip ask [List.Denied], and from now on leave out what is from that peer.
package access
