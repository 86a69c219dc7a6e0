// Package p2p builds the libp2p host. It is the only package that imports
// go-libp2p's root, p2p/* and x/*: what the rest of the program knows of
// libp2p are the interfaces of its core packages.
//
// Invariants: nothing is started before [Builder.Build]; every limit of the
// host comes from [Config] or is written down in limits.go; every address asked
// for is listened on, or Build fails and leaves nothing running; closing the
// host ends every goroutine that Build started.
//
// One host, walked through: the node loads its identity ([LoadOrCreateKey]),
// New checks the configuration, and in the node's Run stage Build makes the
// resource manager (how much anybody may use), the connection manager (which
// connections to give up), the transports (QUIC v1 and TCP with Noise or TLS
// over yamux) and the profile's helpers against NAT, listens, and returns a
// host that the node closes after every protocol on top of it has stopped.
//
// Dials are bounded: 5 s each ([Config.DialTimeout]), 8 addresses of one peer
// and 160 TCP dials in the whole node at one time (the swarm's own constants),
// and all dials together by [Config.MaxConns]. A caller with less time passes a
// context with a deadline.
package p2p
