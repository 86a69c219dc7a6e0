package local

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/dht/routing"
	"allium/protocols/kad"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/resolver"
	"allium/resolver/names"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// FindProviders implements api.Node. It asks for peers alone, not for this node.
func (a *Node) FindProviders(
	ctx context.Context, key string, o api.FindOptions,
) iter.Seq2[api.Provider, error] {
	return func(yield func(api.Provider, error) bool) {
		ctx, root, err := a.allowed(ctx, key, "providers")
		if err != nil {
			yield(api.Provider{}, err)
			return
		}
		q := query(o.Query)
		q.All, q.PeersOnly = true, true
		if o.Trace != nil {
			q.Trace = &probes.Trace{}
			defer func() { *o.Trace = traceOf(q.Trace, root) }() // after the last provider
		}
		found, err := a.deps.Resolver.Resolve(ctx, root, q)
		if q.Trace != nil && q.Trace.End == "" && err == nil {
			q.Trace.End = kad.Satisfied.String() // what this node knows was enough
		}
		if err != nil && status.Of(err) != status.NotFound { // the sequence is empty when there is none
			yield(api.Provider{}, err)
			return
		}
		for i := range found.Providers {
			if !yield(providerOf(&found.Providers[i]), nil) {
				return
			}
		}
	}
}

// Resolve implements api.Node.
func (a *Node) Resolve(ctx context.Context, key string, q api.Query) (api.Resolved, error) {
	x := Index{Resolver: a.deps.Resolver, Keys: a.deps.Keys, Filter: a.deps.Filter("resolve")}
	key, err := a.reader.Canonical(ctx, key)
	if err != nil {
		return api.Resolved{}, err
	}
	if names.IsName(key) {
		return x.ResolveName(ctx, key, q)
	}
	ctx, root, err := a.allowed(ctx, key, "resolve")
	if err != nil {
		return api.Resolved{}, err
	}
	found, err := x.Resolve(ctx, root, q)
	found.Key = key
	return found, err
}

// query returns a query of the API as the resolver has it.
func query(q api.Query) resolver.Query {
	return resolver.Query{
		Limit: q.Limit, Region: q.Region, MinFreshness: q.MinFreshness, Fresh: q.Fresh, All: q.All,
	}
}

// providerOf returns a provider as the API shows it.
func providerOf(p *providers.Provider) api.Provider {
	return api.Provider{
		ID: p.Text.ID, Addrs: p.Text.Addrs, NotAfter: p.NotAfter, Source: string(p.Origin),
		Region: p.Region, RTTMS: milliseconds(p.RTT), Confidence: p.Confidence,
	}
}

// allowed returns the address that a key names, or an error when the denylist names
// it, and the context for work on the object. The gateway checks only the address in a key, not the object at its path.
func (a *Node) allowed(ctx context.Context, key, where string) (context.Context, b3.Root, error) {
	ctx, root, err := a.reader.RootUnder(ctx, key)
	if err == nil {
		err = a.deps.Filter(where).Object(root)
	}
	return ctx, root, err
}

func traceOf(t *probes.Trace, root b3.Root) api.Trace {
	target := targetOf(trace.Key{Root: root})
	v := api.Trace{
		End: t.End, Hops: t.Hops, Probes: t.Probes, Hedges: t.Hedges, TookMS: milliseconds(t.Took),
		Steps: make([]api.Step, len(t.Steps)),
	}
	for i, s := range t.Steps {
		v.Steps[i] = api.Step{
			Peer: s.Peer.String(), Hop: s.Hop, Hedge: s.Hedge,
			StartMS: milliseconds(s.Start), TookMS: milliseconds(s.Took),
			Outcome: s.Outcome, Closer: s.Closer, Providers: s.Providers,
			Shared: target.CommonPrefix(kad.Hash([]byte(s.Peer))),
		}
	}
	return v
}

// Announce implements api.Node. It announces only objects that the store holds.
func (a *Node) Announce(ctx context.Context, key string) (api.Announced, error) {
	ctx, root, err := a.allowed(ctx, key, "announce")
	if err != nil {
		return api.Announced{}, err
	}
	if _, err := a.st.Stat(ctx, root); err != nil {
		return api.Announced{}, err
	}
	a.deps.Announce.Tell(root)
	n, err := a.deps.DHT.Provide(ctx, root)
	if err != nil {
		return api.Announced{}, err
	}
	return api.Announced{Root: root, Peers: n}, nil
}

// Peers implements api.Node.
func (a *Node) Peers(context.Context) ([]api.Peer, error) {
	agents := map[peer.ID]session.Info{}
	for _, s := range a.deps.Sessions.Sessions() {
		agents[s.Peer] = s
	}
	table := a.table()
	peers := []api.Peer{}
	for _, c := range a.deps.Host.Network().Conns() {
		peers = append(peers, a.describe(c, agents[c.RemotePeer()].Agent, table))
	}
	slices.SortFunc(peers, func(a, b api.Peer) int { return strings.Compare(a.ID, b.ID) })
	return peers, nil
}

// Seeds implements api.Node.
func (a *Node) Seeds(context.Context) (api.Seeds, error) {
	list := api.Seeds{Seeds: []api.Seed{}, Remembered: a.deps.DHT.RememberedPeers()}
	for _, s := range a.deps.DHT.Seeds() {
		v := api.Seed{
			ID: s.ID.String(), Addrs: texts(s.Addrs), Source: string(s.Source), Connected: s.Connected,
			LastSuccess: s.LastSuccess, LastError: s.LastError, Tries: s.Tries, NotAfter: s.NotAfter,
			Gave: texts(s.Gave), GaveAt: s.GaveAt,
		}
		list.Seeds = append(list.Seeds, v)
	}
	if a.cfg.SeedManifest {
		m := a.deps.DHT.SeedManifest()
		list.Manifest = &api.SeedManifest{Seq: m.Seq, NotAfter: m.NotAfter, Error: m.Err}
		if m.Signer != "" {
			list.Manifest.Signer = m.Signer.String()
		}
	}
	return list, nil
}

// table returns the entries of the routing table by peer.
func (a *Node) table() map[peer.ID]routing.Entry {
	entries := map[peer.ID]routing.Entry{}
	for _, e := range a.deps.DHT.Table() {
		entries[e.ID] = e
	}
	return entries
}

// describe returns a connection for the API.
func (a *Node) describe(c network.Conn, agent string, table map[peer.ID]routing.Entry) api.Peer {
	p := api.Peer{
		ID: c.RemotePeer().String(), Agent: agent, Direction: "in",
		Addr: c.RemoteMultiaddr().String(), Transport: transportOf(c.RemoteMultiaddr()),
		AgeMS: time.Since(c.Stat().Opened).Milliseconds(), Streams: c.Stat().NumStreams,
	}
	if c.Stat().Direction == network.DirOutbound {
		p.Direction = "out"
	}
	if p.Agent == "" { // without a session, take the agent from identify
		if v, err := a.deps.Host.Peerstore().Get(c.RemotePeer(), "AgentVersion"); err == nil {
			p.Agent, _ = v.(string)
		}
	}
	entry, ok := table[c.RemotePeer()]
	if ok {
		p.Bucket = &entry.Bucket
	}
	p.RTTMS = milliseconds(cmp.Or(a.deps.Host.Peerstore().LatencyEWMA(c.RemotePeer()), entry.RTT))
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

// texts returns the text of each value; it is never nil.
func texts[T fmt.Stringer](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = v.String()
	}
	return all
}
