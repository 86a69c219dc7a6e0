package node

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/dht/routing"
	"allium/protocols/kad"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/resolver"
)

// Providers looked for when nobody says, and at most.
const (
	providersDefault = 5
	providersMax     = 32
)

// FindProviders implements client.Node.
func (a *api) FindProviders(ctx context.Context, key string, o client.FindOptions) iter.Seq2[client.Provider, error] {
	return func(yield func(client.Provider, error) bool) {
		root, err := a.allowed(ctx, key, "providers")
		if err == nil && (o.Limit < 0 || o.Limit > providersMax) {
			err = status.Errorf(status.BadRequest, "limit is %d, must be 1 to %d", o.Limit, providersMax)
		}
		if err != nil {
			yield(client.Provider{}, err)
			return
		}
		find := dht.FindOptions{Limit: cmp.Or(o.Limit, providersDefault), Fresh: o.Fresh}
		if o.Trace != nil {
			find.Trace = &dht.Trace{}
			defer func() { *o.Trace = traceOf(find.Trace) }() // once the loop below is over
		}
		seen := map[peer.ID]bool{}
		give := func(p peer.AddrInfo, notAfter time.Time, from resolver.Origin) (more bool) {
			if seen[p.ID] {
				return true
			}
			seen[p.ID] = true
			v := client.Provider{ID: p.ID.String(), NotAfter: notAfter, Addrs: texts(p.Addrs), Source: string(from)}
			return yield(v, nil) && len(seen) < find.Limit
		}
		if a.findProviders(ctx, root, find, give, yield) && find.Trace != nil && find.Trace.End == "" {
			find.Trace.End = kad.Satisfied.String() // by what is held here
		}
	}
}

// allowed is root of what a key names unless that is denied: what is asked for by
// its address the gateway has judged, not what lies at a path.
func (a *api) allowed(ctx context.Context, key, where string) (b3.Root, error) {
	root, err := a.root(ctx, key)
	if err == nil {
		err = a.n.denylist.At(where).Object(root)
	}
	return root, err
}

// findProviders gives who announced an object, unless fresh answers are asked
// for, and then whom the DHT finds. ok is false when an error was the last thing
// yielded.
func (a *api) findProviders(ctx context.Context, root b3.Root, find dht.FindOptions,
	give func(peer.AddrInfo, time.Time, resolver.Origin) bool, yield func(client.Provider, error) bool,
) (ok bool) {
	if !find.Fresh {
		for _, h := range a.n.announces.Hints(root) {
			if !give(h.AddrInfo, h.NotAfter, resolver.OriginGossip) {
				return true
			}
		}
	}
	for p, err := range a.n.dht.FindProviders(ctx, root, find) {
		if err != nil {
			yield(client.Provider{}, err)
			return false
		}
		if !give(p.AddrInfo, p.NotAfter, resolver.OriginDHT) {
			return true
		}
	}
	return true
}

func traceOf(t *dht.Trace) client.Trace {
	v := client.Trace{End: t.End, Hops: t.Hops, Probes: t.Probes, Hedges: t.Hedges, TookMS: milliseconds(t.Took), Steps: make([]client.Step, len(t.Steps))}
	for i, s := range t.Steps {
		v.Steps[i] = client.Step{
			Peer: s.Peer.String(), Hop: s.Hop, Hedge: s.Hedge, StartMS: milliseconds(s.Start), TookMS: milliseconds(s.Took),
			Outcome: s.Outcome, Closer: s.Closer, Providers: s.Providers,
		}
	}
	return v
}

// Announce implements client.Node. What is not in the store is not announced.
func (a *api) Announce(ctx context.Context, key string) (client.Announced, error) {
	root, err := a.allowed(ctx, key, "announce")
	if err != nil {
		return client.Announced{}, err
	}
	if _, err := a.st.Stat(ctx, root); err != nil {
		return client.Announced{}, err
	}
	a.n.tell(root)
	n, err := a.n.dht.Provide(ctx, root)
	if err != nil {
		return client.Announced{}, err
	}
	return client.Announced{Root: root, Peers: n}, nil
}

// Peers implements client.Node.
func (a *api) Peers(context.Context) ([]client.Peer, error) {
	agents := map[peer.ID]session.Info{}
	for _, s := range a.n.sessions.Sessions() {
		agents[s.Peer] = s
	}
	table := a.table()
	peers := []client.Peer{}
	for _, c := range a.n.host.Network().Conns() {
		peers = append(peers, a.describe(c, agents[c.RemotePeer()].Agent, table))
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

// table is the routing table by peer.
func (a *api) table() map[peer.ID]routing.Entry {
	entries := map[peer.ID]routing.Entry{}
	for _, e := range a.n.dht.Table() {
		entries[e.ID] = e
	}
	return entries
}

// describe is one connection.
func (a *api) describe(c network.Conn, agent string, table map[peer.ID]routing.Entry) client.Peer {
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
	entry, ok := table[c.RemotePeer()]
	if ok {
		p.Bucket = &entry.Bucket
	}
	p.RTTMS = milliseconds(cmp.Or(a.n.host.Peerstore().LatencyEWMA(c.RemotePeer()), entry.RTT))
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
