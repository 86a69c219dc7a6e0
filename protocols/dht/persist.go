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
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ipgroup"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Bounds and paces of persistence.
const (
	flushEvery   = time.Second
	flushTimeout = 5 * time.Second  // of the last flush
	fullPause    = 30 * time.Second // after a flush that found no room; what is deleted makes some
	scanStep     = 512              // persisted records read between two flushes, each verified in about 0.25 ms
	rewriteStep  = 4 << 10          // records written again between two flushes
	lookStep     = 256              // records looked up at one time under the store's lock
	verifyWait   = time.Second      // for a place at the verifier; then at the next step
	tidyEvery    = time.Hour
	maxDirty     = 16 << 10 // changes waiting, about 2 MiB
)

// RecordsSpace is the namespace of the provider records of peers in the
// datastore.
const RecordsSpace = "records"

// space is a part of the datastore of its own; nil without one.
func (s *Service) space(name string) ds.Batching {
	if s.deps.Datastore == nil {
		return nil
	}
	return namespace.Wrap(s.deps.Datastore, ds.NewKey(name))
}

// slot is where a record is: there is one per object and provider.
type slot struct {
	root     b3.Root
	provider peer.ID
}

// key is the slot's name in the datastore.
func (s slot) key() ds.Key { return ds.RawKey("/" + s.root.Hex() + "/" + s.provider.String()) }

// parseSlot is the inverse of key.
func parseSlot(key string) (slot, error) {
	digits, id, ok := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	if !ok {
		return slot{}, fmt.Errorf("no slot: %q", key)
	}
	root, err := b3.Parse("b3:" + digits)
	if err != nil {
		return slot{}, err
	}
	provider, err := peer.Decode(id)
	if err != nil {
		return slot{}, err
	}
	if s := (slot{root, provider}); s.key().String() == key {
		return s, nil
	}
	return slot{}, fmt.Errorf("no slot: %q", key)
}

// dirtySet is the slots that changed since they were last written, at most most
// of them. A nil set holds nothing.
type dirtySet struct {
	most    int
	slots   map[slot]struct{}
	order   []slot // oldest first
	dropped int    // changes that were pushed out
}

func newDirtySet(most int) *dirtySet {
	return &dirtySet{most: most, slots: make(map[slot]struct{})}
}

// add notes a change. When there is no room the oldest one is dropped: a record
// lives in RAM and comes back when its provider publishes it again.
func (d *dirtySet) add(s slot) {
	if d == nil {
		return
	}
	if _, ok := d.slots[s]; ok {
		return
	}
	if len(d.order) == d.most {
		delete(d.slots, d.order[0])
		d.order = d.order[1:]
		d.dropped++
	}
	d.slots[s] = struct{}{}
	d.order = append(d.order, s)
}

// takeDirty empties the set.
func (p *providerStore) takeDirty() (changed []slot, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dirty
	p.dirty = newDirtySet(d.most)
	return d.order, d.dropped
}

// touch has slots written or deleted at the next flush, whichever they need.
func (p *providerStore) touch(slots ...slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range slots {
		p.dirty.add(s)
	}
}

// slots lists where records are.
func (p *providerStore) slots() []slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]slot, 0, p.n)
	for root, held := range p.keys {
		for _, h := range held {
			all = append(all, slot{root, h.provider})
		}
	}
	return all
}

// look returns the records that slots hold.
func (p *providerStore) look(slots []slot) map[slot]sealed {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make(map[slot]sealed, len(slots))
	for _, s := range slots {
		for _, h := range p.keys[s.root] {
			if h.provider == s.provider {
				found[s] = p.sealed(h)
			}
		}
	}
	return found
}

// storedRecord is a record in the datastore.
type storedRecord struct {
	_          struct{} `cbor:",toarray"`
	Envelope   []byte
	PeerRecord []byte
	Group      []byte // source.group
	Reached    bool

	old bool // written by a version that kept neither Group nor Reached
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

// claimed is the group of the addresses that a record's provider signed, where
// it is not known what it came from.
func claimed(s sealed) string {
	if groups := ipgroup.All(s.addrs.Addrs); len(groups) > 0 {
		return string(groups[0])
	}
	return ipgroup.Key(exempt, s.Provider)
}

// persister keeps a copy of the records in a datastore, for the next start.
//
// Changes are collected in the store's dirty set and written every second by
// run alone, in one synced batch: a crash loses at most the changes of a
// second, and never half of a batch. Answers come from RAM. At the start the
// records are read back in the background, each verified like a stranger's.
// What the datastore has and RAM has not, because its deletion was dropped, is
// found and deleted within the hour. What was refused while the clock may have
// been wrong stays on disk, and is read again when the clock is right. Into a datastore that was renewed all of
// them are written again, after what it has was read.
type persister struct {
	mayExpire func() bool // the clock is right

	d       ds.Batching
	store   *providerStore
	verify  *verifier
	renewed func() uint64
	count   *prometheus.CounterVec // result
	log     *slog.Logger

	// Of run alone.
	scan    query.Results // nil between two scans
	entry   *query.Entry  // of the scan; it waits for the verifier
	again   bool          // the scan reads the records, not the keys alone
	loaded  bool          // the first scan is over
	kept    bool          // records were left on disk, not in RAM, as the clock may have been wrong
	next    time.Time     // of the next scan
	failing bool          // since the last success
	pause   time.Time     // no flush before then
	seen    uint64        // of renewed
	rewrite []slot        // to be written again
}

// newPersister returns a persister of store's records in d, which is its alone
// and is closed by the caller after run has returned. A nil d persists nothing.
// It is made before the store is used.
func newPersister(d ds.Batching, store *providerStore, verify *verifier, renewed func() uint64, reg prometheus.Registerer, log *slog.Logger) (*persister, error) {
	w := &persister{
		mayExpire: func() bool { return true },

		d: d, store: store, verify: verify, renewed: renewed, log: log,
		count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dht_records_persisted_total", Help: "Changes of provider records on disk: stored, deleted, dropped (too many waited), failed (tried again), and of those read at the start restored or refused."}, []string{"result"}),
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

// run writes and reads until ctx ends, then writes once more.
func (w *persister) run(ctx context.Context) {
	if w.d == nil {
		return
	}
	w.seen = w.renewed()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.renew()
		w.step(ctx)
		select {
		case <-tick.C:
			if !time.Now().Before(w.pause) {
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

// renew begins anew with a datastore that is another one, and has some of the
// records written to it.
func (w *persister) renew() {
	if n := w.renewed(); n != w.seen {
		w.seen = n
		w.endScan()
		w.loaded, w.next, w.pause = false, time.Time{}, time.Time{}
		w.rewrite = w.store.slots()
	}
	n := min(len(w.rewrite), rewriteStep)
	w.store.touch(w.rewrite[:n]...)
	w.rewrite = w.rewrite[n:]
}

// flush writes what has changed. What cannot be written waits for the next
// flush, which comes later when there is no room.
func (w *persister) flush(ctx context.Context) {
	changed, dropped := w.store.takeDirty()
	w.count.WithLabelValues("dropped").Add(float64(dropped))
	if len(changed) == 0 {
		return
	}
	stored, err := w.write(ctx, changed)
	if err != nil {
		w.count.WithLabelValues("failed").Add(float64(len(changed)))
		w.store.touch(changed...)
		if !w.failing {
			w.log.Warn("provider records cannot be stored: those taken from now on are lost at a restart until their providers publish them again. See that the disk has room and is writable", "error", err)
		}
		w.failing = true
		if status.Of(err) == status.NoSpace {
			w.pause = time.Now().Add(fullPause)
		}
		return
	}
	w.failing = false
	w.count.WithLabelValues("stored").Add(float64(stored))
	w.count.WithLabelValues("deleted").Add(float64(len(changed) - stored))
}

// write makes the datastore have of changed what RAM has, all of it or nothing.
func (w *persister) write(ctx context.Context, changed []slot) (stored int, err error) {
	batch, err := w.d.Batch(ctx)
	if err != nil {
		return 0, err
	}
	for len(changed) > 0 {
		n := min(len(changed), lookStep)
		held := w.store.look(changed[:n])
		for _, s := range changed[:n] {
			rec, ok := held[s]
			if !ok {
				err = batch.Delete(ctx, s.key())
			} else if value, merr := canonical.Marshal(storedRecord{Envelope: rec.envelope, PeerRecord: rec.peerRecord, Group: []byte(rec.group), Reached: rec.reached}); merr != nil {
				err = merr
			} else {
				err = batch.Put(ctx, s.key(), value)
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
	return stored, w.d.Sync(ctx, ds.NewKey("/"))
}
