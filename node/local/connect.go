package local

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/internal/jitter"
	"allium/node/p2p/reach"
	"allium/protocols/status"
)

const (
	// closedWait bounds the second dial, which asks why a peer closes connections.
	closedWait = 5 * time.Second
	// maxDials bounds the dials of a peer that dials this node at the same moments.
	maxDials = 4
	// crossedWait is the average time that such a dial waits for the next one: longer than a handshake takes nearby.
	crossedWait = 100 * time.Millisecond
)

// dial connects to a peer, also if a dial just failed. If two nodes dial each other at one moment, from the ports that
// they listen on, TCP makes one connection of both dials. Both nodes are clients of that, and both dials fail. Each
// node dials again then, at another moment. After a failure the addresses of info that were not known before are
// forgotten: another peer may answer there.
func dial(ctx context.Context, h host.Host, info peer.AddrInfo) (err error) {
	known := h.Peerstore().Addrs(info.ID)
	defer func() {
		if err != nil {
			h.Peerstore().SetAddrs(info.ID, ma.FilterAddrs(info.Addrs, func(a ma.Multiaddr) bool {
				return !ma.Contains(known, a)
			}), 0)
		}
	}()
	for dials := 1; ; dials++ {
		reach.ForgetBackoff(h, info.ID)
		err := h.Connect(ctx, info)
		if err == nil {
			return nil
		}
		if dials == maxDials || !crossed(err) || !jitter.Sleep(ctx, jitter.SpreadBy(crossedWait, 1)) {
			return reach.DialError(info.ID, err)
		}
	}
}

// crossed reports whether a dial failed because the peer is a client of the connection too.
func crossed(err error) bool {
	return strings.Contains(err.Error(), "*tls.clientHelloMsg when waiting for *tls.serverHelloMsg")
}

// closedError returns why a peer closed a connection at once. err is the reason that
// the peer gave, nil for none.
func closedError(id peer.ID, err error) error {
	switch {
	case err == nil:
		return status.Errorf(status.TransportDown,
			"%s closed the connection at once and did not say why; it may be at its limit, or refuse this node", id)
	case reach.AboutClock(err):
		return status.Errorf(status.TransportDown,
			"%s refuses this node's certificate: %w; this machine's clock may be ahead: set the clocks of both", id,
			err)
	}
	var conn *network.ConnError
	if errors.As(err, &conn) &&
		(conn.ErrorCode == network.ConnResourceLimitExceeded || conn.ErrorCode == network.ConnRateLimited) {
		return status.Errorf(status.TransportDown,
			"%s closed the connection at once: it is at its limit; try later", id)
	}
	if conn != nil && conn.ErrorCode == network.ConnGated {
		return status.Errorf(status.TransportDown,
			"%s refuses this node: its operator does not let it connect (listen.deny, listen.allow); ask the operator",
			id)
	}
	return status.Errorf(status.TransportDown, "%s closed the connection at once: %w", id, err)
}

// whyClosed dials the peer once more. It returns the reason with which the peer closes
// the connection, or nil when the peer gives none.
func whyClosed(ctx context.Context, h host.Host, id peer.ID) error {
	ctx, cancel := context.WithTimeout(ctx, closedWait)
	defer cancel()
	c, err := h.Network().DialPeer(ctx, id)
	if err != nil {
		return err
	}
	st, err := c.NewStream(ctx)
	if err != nil {
		return remoteReason(err)
	}
	defer func() { _ = st.Reset() }()
	end, _ := ctx.Deadline()
	_ = st.SetReadDeadline(end)
	_, err = st.Read(make([]byte, 1))
	return remoteReason(err)
}

// remoteReason returns err if it has a reason of the peer. It returns nil if err says
// only that the connection is closed.
func remoteReason(err error) error {
	var conn *network.ConnError
	if errors.As(err, &conn) && conn.Remote || err != nil && reach.AboutClock(err) {
		return err
	}
	return nil
}

// Connect implements api.Node.
func (a *Node) Connect(ctx context.Context, addr string) (api.Peer, error) {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return api.Peer{}, status.Errorf(status.BadRequest,
			"%q is not the address of a peer: %w; write /ip4/ADDRESS/tcp/PORT/p2p/ID", addr, err)
	}
	if info.ID == a.deps.Host.ID() {
		return api.Peer{}, status.Errorf(status.BadRequest, "%s is this node itself", info.ID)
	}
	if err := dial(ctx, a.deps.Host, *info); err != nil {
		return api.Peer{}, err
	}
	conns := a.deps.Host.Network().ConnsToPeer(info.ID)
	if len(conns) == 0 {
		return api.Peer{}, closedError(info.ID, whyClosed(ctx, a.deps.Host, info.ID))
	}
	return a.describe(conns[0], "", a.table()), nil
}

// Disconnect implements api.Node.
func (a *Node) Disconnect(_ context.Context, id string) error {
	p, err := peer.Decode(id)
	if err != nil {
		return status.Errorf(status.BadRequest, "%q is not a peer id: %w", id, err)
	}
	if a.deps.Host.Network().Connectedness(p) != network.Connected {
		return status.Errorf(status.NotFound, "there is no connection to %s; `allium peers` lists the connections", p)
	}
	return a.deps.Host.Network().ClosePeer(p)
}

// Ping implements api.Node.
func (a *Node) Ping(ctx context.Context, to string) (api.Pong, error) {
	var p peer.ID
	var err error
	if strings.HasPrefix(to, "/") {
		if _, err := a.Connect(ctx, to); err != nil {
			return api.Pong{}, err
		}
		info, err := peer.AddrInfoFromString(to)
		if err != nil {
			return api.Pong{}, err
		}
		p = info.ID
	} else if p, err = peer.Decode(to); err != nil {
		return api.Pong{}, status.Errorf(status.BadRequest,
			"%q is neither a peer id nor a multiaddr with /p2p/ID: %w", to, err)
	}
	rtt, err := a.deps.Sessions.Ping(ctx, p)
	if err != nil {
		return api.Pong{}, err
	}
	return api.Pong{ID: p.String(), RTTMS: milliseconds(rtt)}, nil
}
