// Package p2p builds the libp2p host. It is the only package that imports go-libp2p's
// root, p2p/* and x/*. The rest of the program uses the interfaces of its core packages.
//
// Invariants:
//
//   - Nothing runs before [Builder.Build].
//   - Every limit of the host comes from [Config] or stands in limits.go.
//   - At most maxUnsent bytes of one TCP connection, and small writes beside, wait for its socket. Further writes wait
//     until their deadline.
//   - The host listens on every configured address, except on QUIC addresses in a private
//     network. Otherwise Build fails and leaves nothing running.
//   - Closing the host and then calling [Builder.Wait] ends every goroutine that Build
//     started.
//
// One host, step by step: the node loads its identity ([LoadOrCreateKey]), and [New]
// checks the configuration. In the node's Run stage, Build makes the resource manager
// (how much each peer may use) and the connection manager (which connections to close).
// It adds the transports, which are QUIC v1 and TCP with TLS or Noise and yamux, and what
// the profile needs to work behind a NAT. Then it listens and returns the host. The node
// closes the host after every protocol on top of it has stopped.
//
// Dials are bounded: 5 s each ([Config.DialTimeout]), 8 addresses of one peer and 160 TCP dials in the whole node at
// once (the swarm's own constants), and all dials together by [Config.MaxConns]. A caller with less time passes a
// context with a deadline.
package p2p
