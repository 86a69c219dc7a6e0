package node

import (
	"context"
	"iter"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/object"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// This file joins packages that do not know each other: each adapter is one
// side's interface over the other's type.

// served is the store as the object server reads it.
type served struct {
	st     *store.Store
	denied func(b3.Root) error
}

// OpenObject implements object.Store.
func (s served) OpenObject(ctx context.Context, root b3.Root) (object.Object, error) {
	if err := s.denied(root); err != nil {
		return nil, err
	}
	o, err := s.st.Open(ctx, root)
	if status.Of(err) == status.NotFound || status.Of(err) == status.Corrupt {
		if part, failure := s.st.OpenPartial(ctx, root); failure == nil {
			return part, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Presence implements object.Store.
func (s served) Presence(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	has, err := s.st.Has(ctx, roots)
	if err != nil {
		return nil, err
	}
	for i, p := range has {
		if p != b3.Absent && s.denied(roots[i]) != nil {
			has[i] = b3.Absent
		}
	}
	return has, nil
}

// fetched is the store as the resolver writes it.
type fetched struct{ st *store.Store }

// Open implements resolver.Local.
func (f fetched) Open(ctx context.Context, root b3.Root) (b3.Object, error) {
	o, err := f.st.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Has implements resolver.Local.
// What is here need not be fetched, so it is kept as if it came just now.
func (f fetched) Has(ctx context.Context, roots []b3.Root) ([]bool, error) {
	has, err := f.st.Keep(ctx, roots)
	answer := make([]bool, len(has))
	for i, p := range has {
		answer[i] = p == b3.Complete
	}
	return answer, err
}

// Put implements resolver.Local.
func (f fetched) Put(ctx context.Context, root b3.Root, p []byte) error {
	_, err := f.st.PutBytes(ctx, p, store.PutOptions{Expect: root, Deferred: true})
	return err
}

// Partial implements resolver.Local.
func (f fetched) Partial(ctx context.Context, root b3.Root) (size int64, ok bool, err error) {
	p, err := f.st.Partials().Get(ctx, root)
	if status.Of(err) == status.NotFound {
		return 0, false, nil
	}
	return p.Size, err == nil, err
}

// Ingest implements resolver.Local.
func (f fetched) Ingest(ctx context.Context, root b3.Root, size int64) (resolver.Ingest, error) {
	in, err := f.st.Ingest(ctx, root, size)
	if err != nil {
		return nil, err
	}
	return ingest{in}, nil
}

// Flush implements resolver.Local.
func (f fetched) Flush(ctx context.Context) error { return f.st.Flush(ctx) }

// Lease implements resolver.Local.
func (f fetched) Lease(roots ...b3.Root) (release func()) { return f.st.Lease(roots...) }

// finder is the DHT as the resolver asks it.
type finder struct{ dht *dht.Service }

// FindProviders implements providers.Finder.
func (f finder) FindProviders(ctx context.Context, root b3.Root, limit int) iter.Seq2[record.Provider, error] {
	return f.dht.FindProviders(ctx, root, dht.FindOptions{Limit: limit})
}

// addressBook lets the resolver say how a peer can be reached.
type addressBook struct{ host host.Host }

// bookTTL is how long an address from a provider record is kept unless a
// connection confirms it.
const bookTTL = 10 * time.Minute

// AddAddrs implements providers.Dialer.
func (a addressBook) AddAddrs(p peer.AddrInfo) { a.host.Peerstore().AddAddrs(p.ID, p.Addrs, bookTTL) }

// ingest is a download as the resolver writes it.
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
