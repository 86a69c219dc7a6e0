package node

import (
	"context"
	"time"

	"allium/gateway/weblink"
	"allium/node/local"
	"allium/node/local/peerlinks"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/dht/namestore"
	"allium/protocols/dht/probes"
	"allium/protocols/index"
	"allium/protocols/name"
	"allium/protocols/oap"
	"allium/protocols/record"
	"allium/protocols/session"
)

// handleIndex makes the sessions answer what peers ask about keys. It is called before the sessions
// run.
func (n *Node) handleIndex() error {
	server, err := index.NewServer(index.ServerDeps{
		Env: n.env(), Source: startedIndex{n}, Filter: n.denylist.At("peers"), Recurse: n.cfg.Resolver.Recurse,
	})
	if err != nil {
		return err
	}
	n.sessions.Handle(oap.ProtoIndex, session.Traced(n.tracer, "serve index", server.Handle))
	n.sessions.Authorize(oap.ProtoIndex, server.Ask)
	return nil
}

// handleLinks makes the sessions answer peers that open links on the gateway. It is called before the sessions run. A
// seed shows none, because it fetches no objects.
func handleLinks(n *Node) (err error) {
	if n.cfg.Gateway.PeerLinks == 0 || n.cfg.Gateway.Listen == "" || n.cfg.Node.Profile == p2p.Seed {
		return nil
	}
	n.links, err = peerlinks.New(n.cfg.Gateway.PeerLinks, peerlinks.Deps{
		Env: n.env(), Host: n.host, Starting: n.starting, Filter: n.denylist.At("peers"),
		Links: func() *weblink.Set { return n.gateway.Links() },
	})
	if err != nil {
		return err
	}
	n.sessions.Handle(oap.ProtoLinks, session.Traced(n.tracer, "serve links", n.links.Handle))
	n.sessions.Authorize(oap.ProtoLinks, n.links.Ask)
	return nil
}

// startLinks starts what ends links that peers do not renew. It is a stage after the gateway, so all links end before
// that does.
func startLinks(ctx context.Context, n *Node) error {
	service := supervise.Service{
		Name: "links", Owner: "protocols/links", Doc: "keeps the links of peers on the gateway",
		When: "`gateway.peer_links`",
	}
	if n.links == nil {
		n.services.Declare(service)
		return nil
	}
	service.Run = n.links.Run
	return n.services.Start(ctx, service)
}

// startedIndex answers once every stage has started: sessions start before the DHT and the resolver.
type startedIndex struct{ node *Node }

// Object implements index.Source.
func (x startedIndex) Object(ctx context.Context, root b3.Root, limit int, network bool) (index.Answer, error) {
	if err := x.node.starting(); err != nil {
		return index.Answer{}, err
	}
	return x.index().Object(ctx, root, limit, network)
}

// Name implements index.Source.
func (x startedIndex) Name(
	ctx context.Context, n name.Name, maxStale time.Duration, network bool,
) (index.Answer, error) {
	if err := x.node.starting(); err != nil {
		return index.Answer{}, err
	}
	return x.index().Name(ctx, n, maxStale, network)
}

func (x startedIndex) index() local.PeerIndex {
	n := x.node
	return local.PeerIndex{Resolver: n.resolver, DHT: n.dht, Filter: n.denylist.At("peers")}
}

// Seen implements resolver.NameFinder.
func (f dhtFinder) Seen() *namestore.Seen { return f.dht.Seen() }

// FindName implements lookup.Finder.
func (f dhtFinder) FindName(
	ctx context.Context, n name.Name, fresh bool, t *probes.Trace,
) (name.Versions, record.Origin, error) {
	v, err := f.dht.FindName(ctx, n, fresh, t)
	return v, record.OriginDHT, err
}
