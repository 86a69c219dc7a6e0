package testkit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
)

// Conn is one end of a connection. It implements the methods of network.Conn that
// protocols use: ID, LocalPeer, RemotePeer, RemoteMultiaddr, IsClosed and Stat. The
// other methods panic.
type Conn struct {
	network.Conn
	id            string
	local, remote peer.ID
	remoteAddr    ma.Multiaddr
	closed        *atomic.Bool // shared by both ends
	dir           network.Direction
}

var connIDs atomic.Int64

// loopback is the address of hosts that Place did not move.
var loopback = ma.StringCast("/ip4/127.0.0.1/tcp/1")

func newConns(local, remote peer.ID) (a, b *Conn) {
	id, closed := fmt.Sprint("conn-", connIDs.Add(1)), new(atomic.Bool)
	return &Conn{id: id, local: local, remote: remote, remoteAddr: loopback, closed: closed, dir: network.DirOutbound},
		&Conn{id: id, local: remote, remote: local, remoteAddr: loopback, closed: closed, dir: network.DirInbound}
}

// ID implements network.Conn. Both ends have the same id.
func (c *Conn) ID() string { return c.id }

// LocalPeer implements network.Conn.
func (c *Conn) LocalPeer() peer.ID { return c.local }

// RemotePeer implements network.Conn.
func (c *Conn) RemotePeer() peer.ID { return c.remote }

// RemoteMultiaddr implements network.Conn.
func (c *Conn) RemoteMultiaddr() ma.Multiaddr { return c.remoteAddr }

// IsClosed implements network.Conn.
func (c *Conn) IsClosed() bool { return c.closed.Load() }

// Stat implements network.Conn.
func (c *Conn) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Direction: c.dir}}
}

// Network connects hosts. The first stream between two hosts makes their connection,
// which later streams share. It is safe for concurrent use.
type Network struct {
	opts Options
	wg   sync.WaitGroup

	mu      sync.Mutex // lock: metadata
	hosts   map[peer.ID]*Host
	conns   map[[2]peer.ID]*Conn // by {local, remote}
	addrs   map[peer.ID]ma.Multiaddr
	streams []*Stream // the opener's end of each stream
}

// NewNetwork returns a network without hosts. Its streams have the given options.
func NewNetwork(o Options) *Network {
	return &Network{opts: o, hosts: map[peer.ID]*Host{}, conns: map[[2]peer.ID]*Conn{},
		addrs: map[peer.ID]ma.Multiaddr{}}
}

// Place sets the address that other hosts see as a host's own. Existing connections
// keep their addresses. A host that was not placed is on loopback.
func (n *Network) Place(id peer.ID, a ma.Multiaddr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[id] = a
}

// Options returns the options of the network's streams.
func (n *Network) Options() Options { return n.opts }

// Host adds a host. It replaces an earlier host with the same id.
func (n *Network) Host(id peer.ID) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &Host{net: n, id: id, handlers: map[protocol.ID]network.StreamHandler{}}
	n.hosts[id] = h
	return h
}

// Disconnect closes the connection between two hosts and resets its streams. The next
// stream makes a new connection.
func (n *Network) Disconnect(a, b peer.ID) {
	n.mu.Lock()
	conn := n.conns[[2]peer.ID{a, b}]
	delete(n.conns, [2]peer.ID{a, b})
	delete(n.conns, [2]peer.ID{b, a})
	streams := append([]*Stream(nil), n.streams...)
	n.mu.Unlock()
	if conn == nil {
		return
	}
	conn.closed.Store(true)
	for _, s := range streams {
		if s.conn.id == conn.id {
			_ = s.Reset()
		}
	}
}

// Beside makes the next stream between two hosts use a new connection. The old
// connection stays open, with its streams.
func (n *Network) Beside(a, b peer.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, [2]peer.ID{a, b})
	delete(n.conns, [2]peer.ID{b, a})
}

// Close resets every stream and waits for the handlers.
func (n *Network) Close() {
	n.mu.Lock()
	streams := n.streams
	n.streams, n.hosts = nil, nil
	n.mu.Unlock()
	for _, s := range streams {
		_ = s.Reset()
	}
	n.wg.Wait()
}

// Host is the part of a libp2p host that opens and accepts streams.
type Host struct {
	net *Network
	id  peer.ID

	mu       sync.Mutex // lock: leaf
	handlers map[protocol.ID]network.StreamHandler
}

// ID returns the host's peer id.
func (h *Host) ID() peer.ID { return h.id }

// SetStreamHandler implements host.Host.
func (h *Host) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handlers[id] = f
}

// RemoveStreamHandler implements host.Host.
func (h *Host) RemoveStreamHandler(id protocol.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.handlers, id)
}

// handler returns the handler of the first of ids that the host supports, or nil.
func (h *Host) handler(ids []protocol.ID) (protocol.ID, network.StreamHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if f := h.handlers[id]; f != nil {
			return id, f
		}
	}
	return "", nil
}

// NewStream implements host.Host. The handler of the other host runs in a new goroutine.
func (h *Host) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	remote := n.hosts[p]
	if remote == nil {
		return nil, fmt.Errorf("testkit: no host %s", p)
	}
	id, handle := remote.handler(ids)
	if handle == nil {
		return nil, fmt.Errorf("testkit: %s does not speak %v", p, ids)
	}
	a, b := openStream(n.opts, n.conn(h.id, p), n.conn(p, h.id), id)
	n.streams = append(n.streams, a)
	n.wg.Go(func() { handle(b) })
	return a, nil
}

// Conn returns the host's end of its connection to p. It makes the connection if there
// is none.
func (h *Host) Conn(p peer.ID) *Conn {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.net.conn(h.id, p)
}

// conn returns local's end of the connection, and makes it if there is none. The
// caller holds n.mu.
func (n *Network) conn(local, remote peer.ID) *Conn {
	key := [2]peer.ID{local, remote}
	if n.conns[key] == nil {
		here, there := newConns(local, remote)
		if a := n.addrs[remote]; a != nil {
			here.remoteAddr = a
		}
		if a := n.addrs[local]; a != nil {
			there.remoteAddr = a
		}
		n.conns[key], n.conns[[2]peer.ID{remote, local}] = here, there
	}
	return n.conns[key]
}
