package node

import (
	"context"
	"strings"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway"
	"allium/gateway/client"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// api is the local API of a running node. It implements client.Node.
type api struct {
	storeAPI
	n *Node
}

var _ client.Node = (*api)(nil)

func newAPI(n *Node, objects gateway.Objects) *api {
	a := &api{n: n}
	a.storeAPI = storeAPI{
		st: n.store, objects: objects,
		fetchTree: func(ctx context.Context, root b3.Root) (resolver.TreeInfo, error) {
			defer n.store.Hold()()
			return n.resolver.FetchTree(ctx, root, resolver.FetchOptions{})
		},
		fetchFile: func(ctx context.Context, root b3.Root) error {
			_, err := n.resolver.Fetch(ctx, root, resolver.FetchOptions{})
			return err
		},
		repair: func(ctx context.Context, root b3.Root) error {
			return n.repairs.fetch(ctx, n.repairOps(), root)
		},
		pinned:    n.announce,
		unpinned:  n.withdraw,
		amnesia:   n.cfg.Store.Backend == store.BackendMemory,
		noContent: n.cfg.Node.Profile == p2p.Seed,
	}
	return a
}

// Fetch implements client.Node.
func (a *api) Fetch(ctx context.Context, key string, progress client.ProgressFunc) (client.Fetched, error) {
	root, err := a.root(ctx, key)
	if err != nil {
		return client.Fetched{}, err
	}
	if a.noContent {
		return client.Fetched{}, errNoContent
	}
	o := resolver.FetchOptions{}
	if progress != nil {
		o.Progress = func(p resolver.Progress) {
			progress(client.Progress{Bytes: p.Bytes, TotalBytes: p.BytesKnown, Resumed: p.Resumed, Objects: p.Objects, TotalObjects: p.ObjectsKnown})
		}
	}
	defer a.st.Hold()() // whoever pins it next finds it among what was used last
	info, err := a.n.resolver.FetchTree(ctx, root, o)
	if err != nil {
		return client.Fetched{}, err
	}
	f := client.Fetched{Root: root, Kind: client.File, Objects: info.Objects, Bytes: info.Bytes, New: info.FetchedBytes, Resumed: info.Resumed}
	if info.Directory {
		f.Kind = client.Directory
	}
	return f, nil
}

// ID implements client.Node.
func (a *api) ID(context.Context) (client.ID, error) { return a.n.ID(), nil }

// Connect implements client.Node.
func (a *api) Connect(ctx context.Context, addr string) (client.Peer, error) {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return client.Peer{}, status.Errorf(status.BadRequest, "%q is not the address of a peer: %w; write /ip4/ADDRESS/tcp/PORT/p2p/ID", addr, err)
	}
	if info.ID == a.n.host.ID() {
		return client.Peer{}, status.Errorf(status.BadRequest, "%s is this node itself", info.ID)
	}
	if err := a.n.host.Connect(ctx, *info); err != nil {
		return client.Peer{}, status.Errorf(status.TransportDown, "%s cannot be reached: %w; check that it runs and listens there", info.ID, err)
	}
	conns := a.n.host.Network().ConnsToPeer(info.ID)
	if len(conns) == 0 {
		return client.Peer{}, status.Errorf(status.TransportDown, "%s closed the connection at once; it may be at its limit", info.ID)
	}
	return a.describe(conns[0], "", a.table()), nil
}

// Disconnect implements client.Node.
func (a *api) Disconnect(_ context.Context, id string) error {
	p, err := peer.Decode(id)
	if err != nil {
		return status.Errorf(status.BadRequest, "%q is not a peer id: %w", id, err)
	}
	if a.n.host.Network().Connectedness(p) != network.Connected {
		return status.Errorf(status.NotFound, "there is no connection to %s; `allium peers` lists those there are", p)
	}
	return a.n.host.Network().ClosePeer(p)
}

// Ping implements client.Node.
func (a *api) Ping(ctx context.Context, to string) (client.Pong, error) {
	var p peer.ID
	var err error
	if strings.HasPrefix(to, "/") {
		if _, err := a.Connect(ctx, to); err != nil {
			return client.Pong{}, err
		}
		info, err := peer.AddrInfoFromString(to)
		if err != nil {
			return client.Pong{}, err
		}
		p = info.ID
	} else if p, err = peer.Decode(to); err != nil {
		return client.Pong{}, status.Errorf(status.BadRequest, "%q is neither a peer id nor a multiaddr with /p2p/ID: %w", to, err)
	}
	rtt, err := a.n.sessions.Ping(ctx, p)
	if err != nil {
		return client.Pong{}, err
	}
	return client.Pong{ID: p.String(), RTTMS: milliseconds(rtt)}, nil
}

// Drain implements client.Node.
func (a *api) Drain(context.Context) error {
	a.n.Drain()
	return nil
}
