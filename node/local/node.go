package local

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/policy"
	"allium/gateway/weblink"
	"allium/internal/limits"
	"allium/node/files"
	"allium/node/local/opener"
	"allium/node/local/reading"
	"allium/node/p2p/reach"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/session"
	"allium/protocols/ticket"
	"allium/resolver"
	"allium/resolver/names"
	"allium/resolver/names/own"
	"allium/resolver/trace"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
)

// Deps are the parts of a running node that its API uses.
type Deps struct {
	Store    *store.Store
	Objects  content.Opener // opens objects of the store and of peers
	Resolver *resolver.Resolver
	Keys     *names.Resolver
	Repairs  Repairs
	Copies   Copies       // nil: the node joins no cluster
	Names    *own.Service // the names that this node publishes
	Announce Announcer
	Events   Events
	Host     host.Host
	Reach    *reach.Service // nil: what it knows is not shown
	Sessions *session.Service
	// Have asks a peer which objects it has: the client of the object protocol.
	Have    func(ctx context.Context, p peer.ID, roots []b3.Root) ([]b3.Presence, error)
	DHT     *dht.Service
	Trace   *trace.Ring                      // the lookups that Why shows
	Filter  func(where string) policy.Filter // returns the filter of a part of the node; where is a metric label
	Control Control
	Network ticket.Network // the private network, for tickets
	Limits  *limits.Registry
}

// Repairs fetch again what is damaged or missing.
type Repairs interface {
	// Fetch fetches an object now.
	Fetch(ctx context.Context, root b3.Root) error
	// Lost queues a pinned object that is missing or damaged, to be fetched later. It
	// does not wait.
	Lost(l gc.Lost)
}

// Announcer publishes to the network which objects this node has.
type Announcer interface {
	// Announce publishes the object of a new pin.
	Announce(ctx context.Context, root b3.Root)
	// Withdraw stops publishing an object whose last pin was removed.
	Withdraw(ctx context.Context, root b3.Root)
	// PinChanged is called after a pin was set or removed. It does not wait. recursive may be true of any pin.
	PinChanged(label string, recursive bool)
	// Tell announces one object by gossip only.
	Tell(root b3.Root)
}

// Events tells readers of events about pins. Its methods do not wait.
type Events interface {
	// PinAdded reports that a pin was set, or set again.
	PinAdded(root b3.Root, label string, recursive bool)
	// PinRemoved reports that a pin was removed.
	PinRemoved(root b3.Root, label string)
}

// Control has the calls for the operator of a node; see [api.Node].
type Control interface {
	ID() api.ID
	Drain()
	Reload(ctx context.Context, r api.ReloadRequest) (api.Reloaded, error)
	ReloadStatus(token string) (api.Reloaded, error)
	Reloads() []api.Reloaded // the latest first
	Configuration() api.Configuration
	Traffic() api.Traffic
	Faults() api.Faults
	SetFaults(f api.Faults) (api.Faults, error)
}

// The parts of a node that answer for packs of map tiles, for its own health, and for all of it at once.
type (
	packVerbs   = api.Packs
	healthVerbs = api.Examiner
	overseer    = api.Overseer
)

// Node is the API of a running node. It implements api.Node.
type Node struct {
	stored
	packVerbs
	control
	healthVerbs
	films
	overseer
	webSharer
	deps Deps
	from []peer.AddrInfo // peers that are asked first
}

var _ api.Node = (*Node)(nil)

// NewNode returns the API of a node; packs answers for its packs of map tiles, and health for its health. links returns
// the links of its gateway, which starts later. All parts in deps run until the last call ends.
func NewNode(cfg Config, deps Deps, packs api.Packs, health api.Examiner, links func() *weblink.Set) *Node {
	a := &Node{deps: deps, packVerbs: packs, healthVerbs: health, control: control{deps.Control},
		films: films{deps.Trace}, stored: stored{
			reader: reading.New(reading.Options{
				Source: deps.source(nil), Keys: reading.Allowed(deps.Keys, deps.Filter("api")),
				Prefixed:    deps.Store.Prefixed,
				WritesFiles: cfg.SpoolDir != "", MovesFiles: cfg.MovesFiles,
				RestoresIn: cfg.restoresIn(),
			}),
			cfg: cfg, st: deps.Store, archives: files.NewArchiveAdder(cfg.SpoolDir, deps.Limits), node: running{deps},
		}}
	a.overseer, a.webSharer = overview{a}, webSharer{a, links}
	return a
}

// source returns what reads of the node read from. It asks the peers in from before others.
func (d Deps) source(from []peer.AddrInfo) reading.Source {
	return reading.Fetching{Objects: d.Objects, Store: d.Store, Resolver: d.Resolver, From: from}.Source()
}

// running are the hooks of a running node.
type running struct{ deps Deps }

func (running) canRepair() error { return nil }

func (r running) repair(ctx context.Context, root b3.Root) error {
	return r.deps.Repairs.Fetch(ctx, root)
}

func (r running) lost(l gc.Lost) { r.deps.Repairs.Lost(l) }

func (r running) pinned(ctx context.Context, root b3.Root, label string, recursive bool) {
	r.deps.Events.PinAdded(root, label, recursive)
	r.deps.Announce.PinChanged(label, recursive)
	if label != meta.SharedLabel && !meta.OfCluster(label) { // thousands of copies come at once: the listing has them
		r.deps.Announce.Announce(ctx, root)
	}
}

func (r running) targeted(ctx context.Context, p meta.Pin) error {
	if r.deps.Copies == nil {
		return nil
	}
	return r.deps.Copies.Pinned(ctx, p)
}

func (r running) renounce(ctx context.Context, root b3.Root, origin peer.ID) error {
	if r.deps.Copies == nil {
		return errNoCluster
	}
	if origin == "" {
		origin = r.deps.Host.ID()
	}
	return r.deps.Copies.Renounce(ctx, root, origin)
}

func (r running) unpinned(root b3.Root, label string) {
	r.deps.Announce.PinChanged(label, true)
	r.deps.Events.PinRemoved(root, label)
}

// Pinned takes the pin of an object that a peer has put.
func (a *Node) Pinned(ctx context.Context, root b3.Root, label string) {
	a.node.pinned(ctx, root, label, false)
}

// Unpin implements api.Store. The node stops announcing an object without pins.
func (a *Node) Unpin(ctx context.Context, key, label string) error {
	root, err := a.unpin(ctx, key, label)
	if err != nil {
		return err
	}
	left, err := a.pinsOf(ctx, root)
	if announced := func(p api.Pin) bool { return p.Label != meta.SharedLabel }; err == nil &&
		!slices.ContainsFunc(left, announced) {
		a.deps.Announce.Withdraw(ctx, root)
	}
	return nil
}

// Fetch implements api.Node.
func (a *Node) Fetch(ctx context.Context, key string, progress api.ProgressFunc) (api.Fetched, error) {
	ctx, root, err := a.reader.RootUnder(ctx, key)
	if err != nil {
		return api.Fetched{}, err
	}
	if a.cfg.Seed {
		return api.Fetched{}, opener.ErrSeed
	}
	o := resolver.FetchOptions{Sources: resolver.Sources{Peers: a.from}}
	if progress != nil {
		o.Progress = func(p resolver.Progress) {
			progress(api.Progress{
				Bytes: p.Bytes, TotalBytes: p.BytesKnown, Resumed: p.Resumed,
				Objects: p.Objects, TotalObjects: p.ObjectsKnown,
			})
		}
	}
	defer a.st.HoldGC()() // keeps the object until the caller may pin it, as recently used
	info, err := a.deps.Resolver.FetchTree(ctx, root, o)
	if err != nil {
		return api.Fetched{}, err
	}
	f := api.Fetched{
		Root: root, Kind: api.File, Objects: info.Objects,
		Bytes: info.Bytes, New: info.FetchedBytes, Resumed: info.Resumed, LookupID: info.LookupID.String(),
	}
	if info.Directory {
		f.Kind = api.Directory
	}
	return f, nil
}
