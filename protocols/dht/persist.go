package dht

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/namespace"
	"github.com/ipfs/go-datastore/query"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ipgroup"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Bounds and intervals of persistence.
const (
	flushEvery    = time.Second
	flushTimeout  = 5 * time.Second  // of the last flush
	noSpacePause  = 30 * time.Second // after a flush that failed for lack of space; deletions may free some
	scanBatch     = 512              // most records read between two flushes; each takes about 0.25 ms to verify
	rewriteBatch  = 4 << 10          // records marked for rewriting between two flushes
	lookupBatch   = 256              // records looked up while the store is locked once
	verifyTimeout = time.Second      // wait for the verifier; then the next step tries again
	rescanEvery   = time.Hour
	maxDirty      = 16 << 10 // changes that wait, about 2 MiB
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

// dirtySet holds the keys of up to limit records that changed since the last flush. A nil
// set ignores changes.
type dirtySet struct {
	limit   int
	keys    map[recordKey]struct{}
	order   []recordKey // oldest first
	dropped int         // changes that were dropped because the set was full
}

func newDirtySet(most int) *dirtySet {
	return &dirtySet{limit: most, keys: make(map[recordKey]struct{})}
}

// add adds a changed record. A full set drops its oldest change: the record stays in RAM,
// and returns after a restart when its provider publishes it again.
func (d *dirtySet) add(s recordKey) {
	if d == nil {
		return
	}
	if _, ok := d.keys[s]; ok {
		return
	}
	if len(d.order) == d.limit {
		delete(d.keys, d.order[0])
		d.order = d.order[1:]
		d.dropped++
	}
	d.keys[s] = struct{}{}
	d.order = append(d.order, s)
}

// takeDirty returns the changes in order, with the number dropped, and empties the set.
func (p *providerStore) takeDirty() (changed []recordKey, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dirty
	p.dirty = newDirtySet(d.limit)
	return d.order, d.dropped
}

// markDirty makes the next flush write or delete each record, as the store then has it.
func (p *providerStore) markDirty(slots ...recordKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range slots {
		p.dirty.add(s)
	}
}

// recordKeys lists the keys of all records.
func (p *providerStore) recordKeys() []recordKey {
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
func (p *providerStore) lookup(slots []recordKey) map[recordKey]sealed {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make(map[recordKey]sealed, len(slots))
	for _, s := range slots {
		for _, h := range p.keys[s.root] {
			if h.provider == s.provider {
				found[s] = p.sealed(h)
			}
		}
	}
	return found
}

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
	err := canonical.Unmarshal(value, &r)
	if err == nil {
		return r, nil
	}
	var bare wireProvider
	if canonical.Unmarshal(value, &bare) == nil {
		return storedRecord{Envelope: bare.Envelope, PeerRecord: bare.PeerRecord, old: true}, nil
	}
	return r, err
}

// loopback is an address that is in no IP group.
var loopback = ma.StringCast("/ip4/127.0.0.1")

// groupOfAddrs returns the IP group of the addresses that the provider signed. It is used
// if the connection that the record came over is unknown.
func groupOfAddrs(s sealed) string {
	if groups := ipgroup.All(s.addrs.Addrs); len(groups) > 0 {
		return string(groups[0])
	}
	return ipgroup.Key(loopback, s.Provider)
}

// persister keeps a copy of the records in a datastore for the next start.
//
// The store collects changes in its dirty set. Only run writes them, every second, in one
// synced batch: a crash loses at most the changes of one second and never half a batch.
// Requests are answered from RAM. After the start, run reads the records back in the
// background and verifies each like one from a stranger.
//
// If a deletion was dropped, the datastore has a record that RAM lacks; a scan deletes it
// within the hour. A record that was refused while the clock may have been wrong stays on
// disk and is read again when the clock is right. After the datastore was replaced, run
// reads what it contains and then writes all records again.
type persister struct {
	mayExpire func() bool // reports that the clock is right

	datastore         ds.Batching
	store             *providerStore
	verify            *verifier
	countReplacements func() uint64
	count             *prometheus.CounterVec // result
	log               *slog.Logger

	// Used only by run.
	scan         query.Results // nil between two scans
	entry        *query.Entry  // entry of the scan that waits for the verifier
	fullScan     bool          // the scan reads records, not only keys
	loaded       bool          // the first scan has ended
	leftOnDisk   bool          // records were refused and left on disk, because the clock may have been wrong
	nextScan     time.Time     // when the next scan starts
	failing      bool          // no flush has succeeded since the last failure
	pausedUntil  time.Time     // no flush before this time
	replacements uint64        // last value of countReplacements
	rewrite      []recordKey   // records still to write again
}

// newPersister returns a persister of store's records in d. Nothing else may use d; the
// caller closes it after run has returned. A nil d persists nothing. newPersister must be
// called before store is used.
func newPersister(
	d ds.Batching, store *providerStore, verify *verifier, replacements func() uint64,
	reg prometheus.Registerer, log *slog.Logger,
) (*persister, error) {
	w := &persister{
		mayExpire: func() bool { return true },

		datastore: d, store: store, verify: verify, countReplacements: replacements, log: log,
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dht_records_persisted_total",
			Help: "Changes of provider records on disk: stored, deleted, dropped (too many waited), " +
				"failed (tried again); and records read after a start: restored, refused.",
		}, []string{"result"}),
	}
	if d == nil {
		return w, nil
	}
	store.dirty = newDirtySet(maxDirty)
	if reg == nil {
		return w, nil
	}
	return w, reg.Register(w.count)
}

// run reads and writes until ctx ends, then writes once more.
func (w *persister) run(ctx context.Context) {
	if w.datastore == nil {
		return
	}
	w.replacements = w.countReplacements()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.checkReplaced()
		w.continueScan(ctx)
		select {
		case <-tick.C:
			if !time.Now().Before(w.pausedUntil) {
				w.flush(ctx)
			}
		case <-ctx.Done():
		}
	}
	w.endScan()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	w.flush(ctx)
}

// checkReplaced starts over if the datastore was replaced, and marks the next records that
// must be written again.
func (w *persister) checkReplaced() {
	if n := w.countReplacements(); n != w.replacements {
		w.replacements = n
		w.endScan()
		w.loaded, w.nextScan, w.pausedUntil = false, time.Time{}, time.Time{}
		w.rewrite = w.store.recordKeys()
	}
	n := min(len(w.rewrite), rewriteBatch)
	w.store.markDirty(w.rewrite[:n]...)
	w.rewrite = w.rewrite[n:]
}

// flush writes the changes. Changes that cannot be written wait for the next flush. If the
// disk is full, that one comes after noSpacePause.
func (w *persister) flush(ctx context.Context) {
	changed, dropped := w.store.takeDirty()
	w.count.WithLabelValues("dropped").Add(float64(dropped))
	if len(changed) == 0 {
		return
	}
	stored, err := w.write(ctx, changed)
	if err != nil {
		w.count.WithLabelValues("failed").Add(float64(len(changed)))
		w.store.markDirty(changed...)
		if !w.failing {
			w.log.Warn("cannot store provider records: new ones are lost at a restart until their providers "+
				"publish them again. Check that the disk has space and is writable", "error", err)
		}
		w.failing = true
		if status.Of(err) == status.NoSpace {
			w.pausedUntil = time.Now().Add(noSpacePause)
		}
		return
	}
	w.failing = false
	w.count.WithLabelValues("stored").Add(float64(stored))
	w.count.WithLabelValues("deleted").Add(float64(len(changed) - stored))
}

// write makes the datastore agree with RAM for the changed records, all of them or none.
func (w *persister) write(ctx context.Context, changed []recordKey) (stored int, err error) {
	batch, err := w.datastore.Batch(ctx)
	if err != nil {
		return 0, err
	}
	for len(changed) > 0 {
		n := min(len(changed), lookupBatch)
		held := w.store.lookup(changed[:n])
		for _, s := range changed[:n] {
			rec, ok := held[s]
			if !ok {
				err = batch.Delete(ctx, s.datastoreKey())
			} else if value, merr := canonical.Marshal(storedRecord{
				Envelope: rec.envelope, PeerRecord: rec.peerRecord, Group: []byte(rec.group), Reached: rec.reached,
			}); merr != nil {
				err = merr
			} else {
				err = batch.Put(ctx, s.datastoreKey(), value)
				stored++
			}
			if err != nil {
				return 0, err
			}
		}
		changed = changed[n:]
	}
	if err := batch.Commit(ctx); err != nil {
		return 0, err
	}
	return stored, w.datastore.Sync(ctx, ds.NewKey("/"))
}
