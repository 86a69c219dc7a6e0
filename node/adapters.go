package node

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/node/local/opener"
	"allium/node/p2p/reach"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/object"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver"
	"allium/resolver/providers"
	"allium/store"
	"allium/store/cluster/shards"
	"allium/store/meta"
)

// This file joins packages that do not know each other. Each adapter implements
// an interface that one package declares with a type of another package.

// peerStore serves the object server's peers from the store and the example. It hides the
// objects that the denylist names.
type peerStore struct {
	st      *store.Store
	filter  policy.Filter
	example *opener.Example
	coded   codedObjects
}

// codedObjects opens the objects whose shards this node holds.
type codedObjects interface {
	openCoded(ctx context.Context, root b3.Root) (*shards.Object, error)
	hasCoded(root b3.Root) bool
}

// OpenObject implements object.Store. An object that is missing or damaged it opens from the shards of the cluster, if
// this node holds one. Else it opens the verified groups of an unfinished download, if there is one. The error of a
// denied object is that of a missing one: peers learn nothing of the denylist.
func (s peerStore) OpenObject(ctx context.Context, root b3.Root) (object.Object, error) {
	if s.filter.Object(root) != nil {
		return nil, meta.NotFound(root)
	}
	o, err := s.st.Open(ctx, root)
	if status.Of(err) == status.NotFound || status.Of(err) == status.Corrupt {
		if o, failure := s.coded.openCoded(ctx, root); failure == nil {
			return o, nil
		}
		if part, failure := s.st.OpenPartial(ctx, root); failure == nil {
			return part, nil
		}
		if o, ok := s.example.Object(root); ok {
			return o, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Presence implements object.Store. A denied object is absent.
func (s peerStore) Presence(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	has, err := s.st.Has(ctx, roots)
	if err != nil {
		return nil, err
	}
	for i, root := range roots {
		if _, ok := s.example.Bytes(root); ok || has[i] != b3.Complete && s.coded.hasCoded(root) {
			has[i] = b3.Complete
		}
		if has[i] != b3.Absent && s.filter.Object(root) != nil {
			has[i] = b3.Absent
		}
	}
	return has, nil
}

// fetchStore is the store into which the resolver fetches. The objects of the example come from memory, not from peers.
type fetchStore struct {
	st      *store.Store
	example *opener.Example
	coded   codedObjects
}

// Open implements resolver.Local.
func (f fetchStore) Open(ctx context.Context, root b3.Root) (b3.Object, error) {
	o, err := f.st.Open(ctx, root)
	if status.Of(err) == status.NotFound && f.storeExample(ctx, root) {
		o, err = f.st.Open(ctx, root)
	}
	if status.Of(err) == status.NotFound || status.Of(err) == status.Corrupt {
		if o, failure := f.coded.openCoded(ctx, root); failure == nil {
			return o, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Has implements resolver.Local. An object that is in the store is not fetched
// again, so Has protects it from eviction as if it had been fetched just now.
func (f fetchStore) Has(ctx context.Context, roots []b3.Root) ([]bool, error) {
	has, err := f.st.Touch(ctx, roots)
	if err != nil {
		return nil, err
	}
	answer := make([]bool, len(has))
	for i, p := range has {
		answer[i] = p == b3.Complete || p == b3.Absent && f.storeExample(ctx, roots[i])
	}
	return answer, nil
}

// storeExample stores an object of the example, and reports whether it did. If the store has no space, peers are
// asked, and the fetch from them says why it fails.
func (f fetchStore) storeExample(ctx context.Context, root b3.Root) bool {
	p, ok := f.example.Bytes(root)
	if !ok {
		return false
	}
	_, err := f.st.PutBytes(ctx, p, store.PutOptions{Expect: root})
	return err == nil
}

// Put implements resolver.Local.
func (f fetchStore) Put(ctx context.Context, root b3.Root, p []byte) error {
	_, err := f.st.PutBytes(ctx, p, store.PutOptions{Expect: root, Deferred: true})
	return err
}

// Partial implements resolver.Local.
func (f fetchStore) Partial(ctx context.Context, root b3.Root) (size int64, ok bool, err error) {
	p, err := f.st.Partials().Get(ctx, root)
	if status.Of(err) == status.NotFound {
		return 0, false, nil
	}
	return p.Size, err == nil, err
}

// Ingest implements resolver.Local. The resolver fetches an object once at a time, so a conflict means that a peer is
// putting the object. The peer may be slow or stall, and a reader may want only the first bytes. So the fetch does not
// wait for the put, and stores the object apart.
func (f fetchStore) Ingest(ctx context.Context, root b3.Root, size int64) (resolver.Ingest, error) {
	in, err := f.st.Ingest(ctx, root, size)
	if status.Of(err) == status.Conflict {
		in, err = f.st.IngestApart(ctx, root, size)
	}
	if err != nil {
		return nil, err
	}
	return ingest{in}, nil
}

// Flush implements resolver.Local.
func (f fetchStore) Flush(ctx context.Context) error { return f.st.Flush(ctx) }

// AwaitDurable implements resolver.Local.
func (f fetchStore) AwaitDurable(ctx context.Context, root b3.Root) error {
	return f.st.AwaitDurable(ctx, root)
}

// Lease implements resolver.Local.
func (f fetchStore) Lease(roots ...b3.Root) (release func()) { return f.st.Lease(roots...) }

// dhtFinder finds providers and names for the resolver in the DHT.
type dhtFinder struct{ dht *dht.Service }

// FindProviders implements providers.Finder.
func (f dhtFinder) FindProviders(
	ctx context.Context, root b3.Root, o providers.FindOptions,
) iter.Seq2[record.Provider, error] {
	return f.dht.FindProviders(ctx, root, dht.FindOptions{Limit: o.Limit, Fresh: o.Fresh, Trace: o.Trace})
}

// connected reports whether the node knows a peer.
func (n *Node) connected() bool { return n.dht.TableSize() > 0 }

// servingPeers returns the connected peers that serve objects.
func (n *Node) servingPeers() []peer.ID {
	return slices.DeleteFunc(n.host.Network().Peers(), func(p peer.ID) bool {
		some, err := n.host.Peerstore().SupportsProtocols(p, object.ProtocolID)
		return err != nil || len(some) == 0
	})
}

// joinTime is the longest time after its start in which the lookups of a node without a peer
// wait for one. Afterwards they fail at once.
const joinTime = 30 * time.Second

// joining returns a func that reports whether the node has just started and knows a
// seed or an earlier peer. A lookup asks it only when no peer is known yet.
func (n *Node) joining() func() bool {
	started := time.Now()
	return func() bool {
		return time.Since(started) < joinTime && (n.dht.RememberedPeers() > 0 || len(n.dht.Seeds()) > 0)
	}
}

// hasObject reports whether the store has an object.
func (n *Node) hasObject(ctx context.Context, root b3.Root) (bool, error) {
	has, err := n.store.Has(ctx, []b3.Root{root})
	return err == nil && has[0] == b3.Complete, err
}

// aboutPeer returns what the node knows of a peer or, of itself, where it listens.
func (n *Node) aboutPeer(p peer.ID) providers.Facts {
	if p == n.host.ID() {
		return providers.Facts{Region: n.cfg.Node.Region, Addrs: n.host.Addrs()}
	}
	book := n.host.Peerstore()
	return providers.Facts{Region: n.sessions.Region(p), RTT: book.LatencyEWMA(p), Addrs: book.Addrs(p)}
}

// addressBook takes the addresses of peers that the resolver has learnt.
type addressBook struct{ host host.Host }

// providerAddrTTL is the time for which the host remembers an address from a provider
// record. A connection to the address makes it stay longer.
const providerAddrTTL = 10 * time.Minute

// AddAddrs implements providers.Dialer.
func (a addressBook) AddAddrs(p peer.AddrInfo) {
	a.host.Peerstore().AddAddrs(p.ID, p.Addrs, providerAddrTTL)
}

// Redial implements providers.Dialer.
func (a addressBook) Redial(id peer.ID) { reach.ForgetBackoff(a.host, id) }

// ingest is a download that the resolver writes to the store.
type ingest struct{ *store.Ingest }

// Open implements resolver.Ingest.
func (i ingest) Open() (b3.Object, error) {
	o, err := i.Ingest.Open()
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Commit implements resolver.Ingest.
func (i ingest) Commit(ctx context.Context) error {
	_, err := i.Ingest.Commit(ctx, false)
	return err
}
