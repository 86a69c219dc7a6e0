package node

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway"
	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/resolver"
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
		fetchTree: func(ctx context.Context, root b3.Root) error {
			_, err := n.resolver.FetchTree(ctx, root, resolver.FetchOptions{})
			return err
		},
		pinned: n.announce,
	}
	return a
}

// Fetch implements client.Node.
func (a *api) Fetch(ctx context.Context, key string, progress client.ProgressFunc) (client.Fetched, error) {
	root, err := a.root(ctx, key)
	if err != nil {
		return client.Fetched{}, err
	}
	o := resolver.FetchOptions{}
	if progress != nil {
		o.Progress = func(p resolver.Progress) {
			progress(client.Progress{Bytes: p.Bytes, TotalBytes: p.BytesKnown, Objects: p.Objects, TotalObjects: p.ObjectsKnown})
		}
	}
	info, err := a.n.resolver.FetchTree(ctx, root, o)
	if err != nil {
		return client.Fetched{}, err
	}
	f := client.Fetched{Root: root, Kind: client.File, Objects: info.Objects, Bytes: info.Bytes, New: info.FetchedBytes}
	if info.Directory {
		f.Kind = client.Directory
	}
	return f, nil
}

// providersDefault is how many providers are looked for when nobody says.
const (
	providersDefault = 5
	providersMax     = 32
)

// Providers implements client.Node.
func (a *api) Providers(ctx context.Context, key string, limit int) iter.Seq2[client.Provider, error] {
	return func(yield func(client.Provider, error) bool) {
		root, err := a.root(ctx, key)
		if err == nil && (limit < 0 || limit > providersMax) {
			err = status.Errorf(status.BadRequest, "limit is %d, must be 1 to %d", limit, providersMax)
		}
		if err != nil {
			yield(client.Provider{}, err)
			return
		}
		if limit == 0 {
			limit = providersDefault
		}
		for p, err := range a.n.dht.FindProviders(ctx, root, dht.FindOptions{Limit: limit}) {
			v := client.Provider{ID: p.ID.String(), NotAfter: p.NotAfter, Addrs: []string{}}
			for _, addr := range p.Addrs {
				v.Addrs = append(v.Addrs, addr.String())
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Announce implements client.Node. What is not in the store is not announced.
func (a *api) Announce(ctx context.Context, key string) (client.Announced, error) {
	root, err := a.root(ctx, key)
	if err != nil {
		return client.Announced{}, err
	}
	if _, err := a.st.Stat(ctx, root); err != nil {
		return client.Announced{}, err
	}
	n, err := a.n.dht.Provide(ctx, root)
	if err != nil {
		return client.Announced{}, err
	}
	return client.Announced{Root: root, Peers: n}, nil
}

// ID implements client.Node.
func (a *api) ID(context.Context) (client.ID, error) { return a.n.ID(), nil }

// Peers implements client.Node.
func (a *api) Peers(context.Context) ([]client.Peer, error) {
	agents := map[peer.ID]session.Info{}
	for _, s := range a.n.sessions.Sessions() {
		agents[s.Peer] = s
	}
	peers := []client.Peer{}
	for _, c := range a.n.host.Network().Conns() {
		peers = append(peers, a.describe(c, agents[c.RemotePeer()].Agent))
	}
	slices.SortFunc(peers, func(a, b client.Peer) int { return strings.Compare(a.ID, b.ID) })
	return peers, nil
}

// Seeds implements client.Node.
func (a *api) Seeds(context.Context) (client.Seeds, error) {
	list := client.Seeds{Remembered: a.n.dht.RememberedPeers()}
	for _, s := range a.n.dht.Seeds() {
		v := client.Seed{
			ID: s.ID.String(), Addrs: texts(s.Addrs), Source: string(s.Source), Connected: s.Connected,
			LastSuccess: s.LastSuccess, LastError: s.LastError, Tries: s.Tries, NotAfter: s.NotAfter, Gave: texts(s.Gave), GaveAt: s.GaveAt,
		}
		list.Seeds = append(list.Seeds, v)
	}
	if a.n.cfg.DHT.Seeds.SeedManifest != "" {
		m := a.n.dht.SeedManifest()
		list.Manifest = &client.SeedManifest{Seq: m.Seq, NotAfter: m.NotAfter, Error: m.Err}
		if m.Signer != "" {
			list.Manifest.Signer = m.Signer.String()
		}
	}
	return list, nil
}

// describe is one connection.
func (a *api) describe(c network.Conn, agent string) client.Peer {
	p := client.Peer{
		ID: c.RemotePeer().String(), Addr: c.RemoteMultiaddr().String(), Transport: transportOf(c.RemoteMultiaddr()),
		Direction: "in", Agent: agent, AgeMS: time.Since(c.Stat().Opened).Milliseconds(), Streams: c.Stat().NumStreams,
	}
	if c.Stat().Direction == network.DirOutbound {
		p.Direction = "out"
	}
	if p.Agent == "" { // no session yet: what identify heard
		if v, err := a.n.host.Peerstore().Get(c.RemotePeer(), "AgentVersion"); err == nil {
			p.Agent, _ = v.(string)
		}
	}
	if rtt := a.n.host.Peerstore().LatencyEWMA(c.RemotePeer()); rtt > 0 {
		p.RTTMS = milliseconds(rtt)
	}
	return p
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func transportOf(a ma.Multiaddr) string {
	for _, t := range []struct {
		code int
		name string
	}{{ma.P_CIRCUIT, "relay"}, {ma.P_QUIC_V1, "quic"}, {ma.P_TCP, "tcp"}} {
		if _, err := a.ValueForProtocol(t.code); err == nil {
			return t.name
		}
	}
	return "other"
}

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
	return a.describe(conns[0], ""), nil
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
