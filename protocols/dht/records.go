package dht

import (
	"context"
	"fmt"
	"strings"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/namespace"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/persist"
	"allium/protocols/record"
)

// RecordsSpace is the datastore namespace of the provider records of peers.
const RecordsSpace = "records"

// namespace returns a part of the datastore, nil without a datastore.
func (s *Service) namespace(name string) ds.Batching {
	if s.deps.Datastore == nil {
		return nil
	}
	return namespace.Wrap(s.deps.Datastore, ds.NewKey(name))
}

// recordKey identifies a record: there is one per object and provider.
type recordKey struct {
	root     b3.Root
	provider peer.ID
}

// datastoreKey returns the record's key in the datastore.
func (s recordKey) datastoreKey() ds.Key {
	return ds.RawKey("/" + s.root.Hex() + "/" + s.provider.String())
}

// parseRecordKey is the inverse of datastoreKey.
func parseRecordKey(key string) (recordKey, error) {
	digits, id, ok := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	if !ok {
		return recordKey{}, fmt.Errorf("no slot: %q", key)
	}
	root, err := b3.Parse("b3:" + digits)
	if err != nil {
		return recordKey{}, err
	}
	provider, err := peer.Decode(id)
	if err != nil {
		return recordKey{}, err
	}
	if s := (recordKey{root, provider}); s.datastoreKey().String() == key {
		return s, nil
	}
	return recordKey{}, fmt.Errorf("no slot: %q", key)
}

// Keys implements [persist.Table]: it lists the keys of all records.
func (p *providerStore) Keys() []recordKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]recordKey, 0, p.count)
	for root, held := range p.keys {
		for _, h := range held {
			all = append(all, recordKey{root, h.provider})
		}
	}
	return all
}

// lookup returns the stored records among slots.
func (p *providerStore) lookup(slots []recordKey) map[recordKey]sourced {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make(map[recordKey]sourced, len(slots))
	for _, s := range slots {
		for _, h := range p.keys[s.root] {
			if h.provider == s.provider {
				found[s] = p.sourced(h)
			}
		}
	}
	return found
}

// storedCodec encodes and decodes records in the datastore.
var storedCodec = record.NewCodec(messages.MaxProviders)

// storedRecord is the form of a record in the datastore.
type storedRecord struct {
	_          struct{} `cbor:",toarray"`
	Envelope   []byte
	PeerRecord []byte
	Group      []byte // source.group
	Reached    bool

	old bool // written by a version that stored neither Group nor Reached
}

func parseStored(value []byte) (storedRecord, error) {
	var r storedRecord
	err := storedCodec.Unmarshal(value, &r)
	if err == nil {
		return r, nil
	}
	var bare messages.Provider
	if storedCodec.Unmarshal(value, &bare) == nil {
		return storedRecord{Envelope: bare.Envelope, PeerRecord: bare.PeerRecord, old: true}, nil
	}
	return r, err
}

// loopback is an address that is in no IP group.
var loopback = ma.StringCast("/ip4/127.0.0.1")

// groupOfAddrs returns the IP group of the addresses that the provider signed. It is used
// if the connection that the record came over is unknown.
func groupOfAddrs(s messages.Sealed) string {
	if groups := ipgroup.All(s.Addrs.Addrs); len(groups) > 0 {
		return string(groups[0])
	}
	return ipgroup.Key(loopback, s.Provider)
}

// providerTable is the provider records as a [persist.Table].
type providerTable struct {
	*providerStore
	verify *verifier
}

// Path implements [persist.Table].
func (providerTable) Path(key recordKey) ds.Key { return key.datastoreKey() }

// ParsePath implements [persist.Table].
func (providerTable) ParsePath(path string) (recordKey, error) { return parseRecordKey(path) }

// Values implements [persist.Table].
func (t providerTable) Values(keys []recordKey) (map[recordKey][]byte, error) {
	values := make(map[recordKey][]byte, len(keys))
	for key, rec := range t.lookup(keys) {
		value, err := storedCodec.Marshal(storedRecord{
			Envelope: rec.Envelope, PeerRecord: rec.PeerRecord, Group: []byte(rec.group), Reached: rec.reached,
		})
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	return values, nil
}

// Restore implements [persist.Table].
func (t providerTable) Restore(ctx context.Context, at recordKey, value []byte) error {
	err := t.restoreStored(ctx, at, value)
	if messages.RefusalOf(err) != "" {
		return fmt.Errorf("%w: %w", persist.ErrRefused, err)
	}
	return err
}

// restoreStored verifies a persisted record and adds it to the store.
func (t providerTable) restoreStored(ctx context.Context, at recordKey, value []byte) error {
	stored, err := parseStored(value)
	if err != nil {
		return messages.Refuse(messages.Malformed, err)
	}
	opened, err := t.verify.reopen(ctx, stored.Envelope, stored.PeerRecord, at.root)
	if err != nil {
		return err
	}
	rec := sourced{opened, source{group: string(stored.Group), reached: stored.Reached}}
	if stored.old {
		rec.group = groupOfAddrs(opened)
	}
	if rec.Provider != at.provider {
		return messages.Refuse(messages.WrongProvider, nil)
	}
	return t.restore(rec, t.verify.now())
}

// TakeChanges implements [persist.Table].
func (p *providerStore) TakeChanges() (changed []recordKey, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes.Take()
}

// MarkChanged implements [persist.Table].
func (p *providerStore) MarkChanged(keys ...recordKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes.Add(keys...)
}

// newPersister returns the persister of store's records in d. It must be called before store
// is used.
func newPersister(
	d ds.Batching, store *providerStore, verify *verifier, deps persist.Deps,
) *persist.Persister[recordKey] {
	if d != nil {
		store.changes = persist.NewChanges[recordKey]()
	}
	deps.Datastore = d
	return persist.New(providerTable{store, verify}, deps)
}
