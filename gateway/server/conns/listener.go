package conns

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"allium/gateway/server/sockets"
	"allium/internal/limits"
)

// Config are the limits of a Listener, and what it reports.
type Config struct {
	Limits
	Exempt        func(netip.Addr) bool // addresses that carry many clients and have no limit per client
	Evicts        bool                  // a full listener evicts an idle connection, or else a transfer
	Transfers     []*Transfers          // the transfers that it may evict
	Stall         time.Duration         // the longest time in which a client takes nothing; see Transfer.Watch
	HalfClosed    *HalfClosed
	OnReject      func(reason string)
	OnForeignUser func(error) // called when another user's process connects to the socket
}

// Limits are the limits of a listener's connections.
type Limits struct {
	All       *limits.Gate
	PerClient *limits.KeyedGate[netip.Prefix] // nil: no limit per client
}

// Listener closes connections above its limits right after it has accepted them.
type Listener struct {
	net.Listener
	Config
	evictable *evictQueue // nil: no connection is evicted
}

// Listen returns a listener that accepts the connections of l within the limits of cfg.
func Listen(l net.Listener, cfg Config) *Listener {
	b := &Listener{Listener: l, Config: cfg}
	if cfg.Evicts {
		b.evictable = newEvictQueue()
	}
	return b
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := sockets.Allowed(c); err != nil {
			l.OnForeignUser(err)
			l.refuse(c, "peer_uid")
			continue
		}
		peer := AddrOf(c.RemoteAddr().String())
		perClient := l.PerClient
		if l.Exempt(peer) {
			perClient = nil
		}
		group := GroupOf(peer)
		leave, err := perClient.Enter(group)
		if err != nil {
			l.refuse(c, "conns_per_ip")
			continue
		}
		release, err := l.All.TryAcquire()
		if err != nil && l.evictFor(group) {
			release, err = l.All.TryAcquire()
		}
		if err != nil {
			leave()
			l.refuse(c, "conns")
			continue
		}
		c = sockets.WithFiles(c)
		k := &Conn{Conn: c, peer: peer, halfClosed: l.HalfClosed, place: place{queue: l.evictable, group: group}}
		k.progress.start(c, l.Stall)
		k.release = sync.OnceFunc(func() {
			leave()
			release()
		})
		if k.queue != nil {
			k.queue.add(k)
		}
		return k, nil
	}
}

// evictFor evicts a connection for one more connection of client. Its place is free at once.
// It returns false if no connection may be evicted.
func (l *Listener) evictFor(client netip.Prefix) bool {
	if l.evictable == nil {
		return false
	}
	c, reason := l.evictable.evictIdle(client)
	if c == nil {
		if c = l.evictSlowest(client); c == nil {
			return false
		}
		reason = "transfer_evicted"
		c.EndWrites()
	}
	l.OnReject(reason)
	c.evicted.Store(true)
	interrupt(c.Conn)
	c.release()
	return true
}

// evictSlowest removes and returns the connection of the slowest transfer of the client that
// exceeds client's connections most. It returns nil if there is none.
func (l *Listener) evictSlowest(client netip.Prefix) *Conn {
	weigh := l.evictable.overShare(client)
	if weigh == nil {
		return nil
	}
	for _, ts := range l.Transfers {
		var found [maxCandidates]*Transfer
		t := slowest(found[:ts.candidates(found[:], (*Transfer).any, weigh)])
		if t != nil && t.conn != nil && l.evictable.evictActive(t.conn) {
			return t.conn
		}
	}
	return nil
}

// refuse resets a connection and counts the reason.
func (l *Listener) refuse(c net.Conn, reason string) {
	l.OnReject(reason)
	reset(c)
}
