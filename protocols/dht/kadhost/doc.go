// Package kadhost adapts go-libp2p-kad-dht to this node's rules: which peers its
// routing table holds, and who answers queries.
//
// Invariants:
//
//   - kad-dht never sees a GET_PROVIDERS or FIND_NODE with a key of 1 to 80 bytes.
//     [Host] answers it; every other message reaches kad-dht unchanged and in order.
//   - Peers of one IP group never hold more than their share of a bucket of
//     kad-dht's table. [GroupFilter] refuses more.
//
// One request: a peer sends FIND_NODE. kad-dht's handler reads from its stream.
// The stream of [Host] reads the whole message, calls the answer function, writes
// the response and waits for the next message. kad-dht reads that one instead.
package kadhost
