package node

import (
	"context"
	"encoding/hex"
	"iter"
	"net/url"
	"path/filepath"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/node/config"
	homedir "allium/node/home"
	"allium/node/local"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/dht"
	"allium/protocols/oap"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/store"
	"allium/store/cluster"
	"allium/store/cluster/members"
	"allium/store/cluster/offer"
	"allium/store/cluster/plan"
	"allium/store/cluster/shards"
	"allium/store/cluster/upkeep"
	"allium/store/meta"
)

// newMembers makes what finds the members of this node's cluster. Gossip, which carries their
// offers, starts after it.
func (n *Node) newMembers() (err error) {
	var kept ds.Datastore // not a nil *records.Store
	if n.records != nil {
		kept = n.records
	}
	n.members, err = members.New(n.membersConfig(), members.Deps{
		Env: n.env(), Key: n.key, Ring: n.clusterRing(), Space: n.offeredSpace,
		Publish: func(ctx context.Context, data []byte) error {
			if n.clock.Wrong() {
				return status.Errorf(status.NotReady, "the clock is wrong")
			}
			return n.gossip.Publish(ctx, offer.Topic, data)
		},
		Provide: func(ctx context.Context, key b3.Root) error { _, err := n.dht.Provide(ctx, key); return err },
		Find: func(ctx context.Context, key b3.Root) iter.Seq2[record.Provider, error] {
			return n.dht.FindProviders(ctx, key, dht.FindOptions{})
		},
		Connect: func(ctx context.Context, p peer.AddrInfo) error {
			if n.host.Network().Connectedness(p.ID) == network.Connected {
				return nil
			}
			return n.host.Connect(ctx, p)
		},
		Network: n.networkOf, Broken: n.brokenFor, Records: kept,
	})
	return err
}

func (n *Node) membersConfig() members.Config {
	p := plan.DefaultParams()
	if n.cfg.Node.Profile == p2p.Testnet {
		p = plan.TestnetParams()
	}
	cfg := members.NewConfig(n.cfg.Durability.Params(p))
	cfg.Region, cfg.Domain = n.cfg.Node.Region, domainOf(n.cfg)
	cfg.Only, _ = n.cfg.Durability.Only() // Validate has parsed it
	if n.cfg.JoinsCluster() && !n.embedded {
		cfg.File = filepath.Join(n.home, homedir.DrainingFile)
	}
	return cfg
}

// domainOf returns the domain of a node: that of its bucket, if it has one, as two nodes with one bucket lose their
// copies together.
func domainOf(cfg config.Config) string {
	if cfg.Store.Backend != store.BackendS3 {
		return cfg.Node.Domain
	}
	at, _ := url.Parse(cfg.Store.S3.URL) // Validate has parsed it
	sum := b3.Sum([]byte(cfg.Store.S3.Endpoint + " " + at.Host))
	return plan.BucketDomain + hex.EncodeToString(sum[:16])
}

// brokenFor reports whether the breaker for a peer is open.
func (n *Node) brokenFor(p peer.ID) bool {
	return n.started.Load() && n.resolver.Traits(p).Breaker == providers.BreakerOpen
}

// noRing is the ring of a node that joins no cluster: it keeps no content, or only in RAM.
type noRing struct{}

// Derive implements [offer.Ring].
func (noRing) Derive(string) []capability.Derived { return nil }

func (n *Node) clusterRing() offer.Ring {
	if !n.cfg.JoinsCluster() {
		return noRing{}
	}
	return n.capabilities
}

// offeredShare is the share of the free space that a node offers to its cluster.
const offeredShare = 0.9

// offeredSpace returns the space that this node offers: durability.offer, else a share of what is free or used by
// objects beyond the reserve.
func (n *Node) offeredSpace() members.Space {
	stats := n.store.Stats().Usage
	free := max(stats.FreeBytes-int64(n.cfg.Store.ReserveBytes), 0)
	used := stats.SegmentLiveBytes + stats.LargeBytes + stats.OutboardBytes
	s := members.Space{
		Capacity: uint64(offeredShare * float64(free+used)), Free: uint64(offeredShare * float64(free)),
	}
	if offer := int64(n.cfg.Durability.Offer); offer > 0 {
		left := max(offer-n.store.Quotas().Usage(meta.ClusterLabel).Bytes, 0)
		s.Capacity, s.Free = uint64(offer), min(s.Free, uint64(left))
	}
	return s
}

// networkOf returns the network of a peer's addresses, "" while that is not known.
func (n *Node) networkOf(p peer.ID) string {
	addrs := n.host.Addrs()
	if p != n.host.ID() {
		addrs = nil
		for _, c := range n.host.Network().ConnsToPeer(p) {
			addrs = append(addrs, c.RemoteMultiaddr())
		}
	}
	for _, g := range ipgroup.All(addrs) {
		if g != ipgroup.Unplaced {
			return string(g)
		}
	}
	return ""
}

// handleRepair makes the sessions answer what members ask about copies, once the node has started. It is
// called before the sessions run.
func (n *Node) handleRepair() {
	if !n.cfg.JoinsCluster() {
		return
	}
	n.sessions.Authorize(oap.ProtoRepair, cluster.Ask)
	n.sessions.Handle(oap.ProtoRepair, func(ctx context.Context, from peer.ID, r *session.Request) session.Response {
		if err := n.starting(); err != nil {
			return session.Response{Err: err}
		}
		return n.copies.Handle(ctx, from, r)
	})
}

// startCopies is a stage after members and repairs: it plans the copies that pins ask for.
func (n *Node) startCopies(ctx context.Context) error {
	service := supervise.Service{
		Name: "durability", Owner: "store/cluster", When: "joins a cluster",
		Doc: "keeps the copies and shards that pins ask for, on this node and others",
	}
	if !n.cfg.JoinsCluster() {
		n.services.Declare(service)
		return nil
	}
	minter, err := n.capabilities.Minter()
	if err != nil {
		return err
	}
	n.copies, err = cluster.New(n.membersConfig().Durability, cluster.Deps{
		Env: n.env(), Self: n.host.ID(), Members: n.members, Store: n.store, Repairs: n.repairs, Sessions: n.sessions,
		Objects: n.objects, Minter: minter, Coded: func(root b3.Root) { n.publisher.Announce(ctx, root) },
		Filter: n.denylist.At("put"), Audit: n.gatewayAudit(), Changed: n.copiesChanged, Records: n.records,
	})
	if err != nil {
		return err
	}
	service.Run = n.copies.Run
	return n.services.Start(ctx, service)
}

// openCoded opens an object from its shards. The error is not_found if this node holds none of them.
func (n *Node) openCoded(ctx context.Context, root b3.Root) (*shards.Object, error) {
	if !n.started.Load() || n.copies == nil {
		return nil, status.Errorf(status.NotFound, "no shard of %s is here", root)
	}
	return n.copies.Coder.Open(ctx, root)
}

// hasCoded reports whether this node holds a shard of an object, and can serve it by that.
func (n *Node) hasCoded(root b3.Root) bool {
	return n.started.Load() && n.copies != nil && n.copies.Coder.Has(root)
}

// coded yields the objects whose shards this node holds.
func (n *Node) coded(yield func(b3.Root) bool) {
	if n.started.Load() && n.copies != nil {
		n.copies.Codings(yield)
	}
}

// keptCopies returns what keeps copies as the API's interface: nil, not a nil *cluster.Keeper, if there is none.
func (n *Node) keptCopies() local.Copies {
	if n.copies == nil {
		return nil
	}
	return n.copies
}

// startMembers is a stage after gossip and the DHT, by which members are found.
func (n *Node) startMembers(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "members", Doc: "finds the members of the cluster and offers them space", Run: n.members.Run,
	})
}

// copiesChanged publishes what a tick found that changed about copies: at most five events, whatever happened.
func (n *Node) copiesChanged(c upkeep.Change) {
	about := api.DurabilityEvent{
		Objects: c.Now.Objects, AtRisk: c.Now.AtRisk, Lost: c.Now.Lost, Missing: c.Now.Missing,
	}
	if len(c.Gone) > 0 {
		n.events.Durability(api.EventGone, ofMembers(about, c.Gone))
	}
	if len(c.Back) > 0 {
		n.events.Durability(api.EventBack, ofMembers(about, c.Back))
	}
	if c.Lost() {
		n.events.Durability(api.EventLost, about)
	}
	switch {
	case c.Behind():
		n.events.Durability(api.EventAtRisk, about)
	case c.Restored():
		n.events.Durability(api.EventRestored, about)
	}
}

func ofMembers(e api.DurabilityEvent, ids []plan.ID) api.DurabilityEvent {
	e.Members = len(ids)
	for _, id := range ids[:min(len(ids), api.MaxEventMembers)] {
		e.IDs = append(e.IDs, peer.ID(id).String())
	}
	return e
}

// mayRepair reports whether a node fetches damaged objects again by itself. A seed
// does not, as it stores no content; nor does a store in RAM, which does not rot.
func mayRepair(cfg config.Config) bool {
	return cfg.Node.Profile != p2p.Seed && cfg.Store.Backend != store.BackendMemory
}

// peersWait is the longest time that the first repair waits for the network.
const peersWait = 30 * time.Second

// awaitPeers waits until the node has found its network, at most peersWait. A
// repair that begins earlier fails and is only tried again minutes later.
func (n *Node) awaitPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, peersWait)
	defer cancel()
	for !n.bootstrapGate().Ready() || !n.tableGate().Ready() {
		if limits.Sleep(ctx, peersWait/300) != nil {
			return
		}
	}
}

// startRepairs starts repairs. It is a stage after the resolver, which finds
// their providers.
func (n *Node) startRepairs(ctx context.Context) error {
	n.repairs.Join(n.store, n.resolver)
	run := func(ctx context.Context, ready func()) error {
		ready()
		n.awaitPeers(ctx)
		n.repairs.Run(ctx)
		return nil
	}
	service := supervise.Service{
		Name: "repairs", Owner: "store/cluster/repair", Doc: "fetches damaged and lost objects again", Run: run,
		When: "store.repair_rate above 0, content on disk or in a bucket",
	}
	if n.repairs.Off() {
		n.services.Declare(service)
		return nil
	}
	return n.services.Start(ctx, service)
}
