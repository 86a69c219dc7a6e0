package dht

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/b3"
)

// Bounds and paces of persistence.
const (
	flushEvery   = time.Second
	flushTimeout = 5 * time.Second // of the last flush
	scanStep     = 512             // persisted records read between two flushes, each verified in about 0.25 ms
	lookStep     = 256             // records looked up at one time under the store's lock
	verifyWait   = time.Second     // for a place at the verifier; then at the next step
	tidyEvery    = time.Hour
	maxDirty     = 16 << 10 // changes waiting, about 2 MiB
)

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

// look returns the records that slots hold.
func (p *providerStore) look(slots []slot) map[slot]sealed {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make(map[slot]sealed, len(slots))
	for _, s := range slots {
		for _, h := range p.keys[s.root] {
			if h.provider == s.provider {
				found[s] = p.sealed(s.root, h)
			}
		}
	}
	return found
}

// persister keeps a copy of the records in a datastore, for the next start.
//
// Changes are collected in the store's dirty set and written every second by
// run alone, in one synced batch: a crash loses at most the changes of a
// second, and never half of a batch. Answers come from RAM. At the start the
// records are read back in the background, each verified like a stranger's.
// What the datastore has and RAM has not, because its deletion was dropped, is
// found and deleted within the hour.
type persister struct {
	d      ds.Batching
	store  *providerStore
	verify *verifier
	count  *prometheus.CounterVec // result
	log    *slog.Logger

	// Of run alone.
	scan    query.Results // nil between two scans
	entry   *query.Entry  // of the scan; it waits for the verifier
	loaded  bool          // the first scan is over
	next    time.Time     // of the next scan
	failing bool          // since the last success
}

// newPersister returns a persister of store's records in d, which is its alone
// and is closed by the caller after run has returned. A nil d persists nothing.
// It is made before the store is used.
func newPersister(d ds.Batching, store *providerStore, verify *verifier, reg prometheus.Registerer, log *slog.Logger) (*persister, error) {
	w := &persister{
		d: d, store: store, verify: verify, log: log,
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
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.step(ctx)
		select {
		case <-tick.C:
			w.flush(ctx)
		case <-ctx.Done():
		}
	}
	w.endScan()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	w.flush(ctx)
}

// flush writes what has changed. What cannot be written waits for the next
// flush.
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
			} else if value, merr := canonical.Marshal(wireProvider{Envelope: rec.envelope, PeerRecord: rec.peerRecord}); merr != nil {
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

// step reads on, if it is time: first all records, then every hour the keys.
func (w *persister) step(ctx context.Context) {
	if w.scan == nil {
		if time.Now().Before(w.next) {
			return
		}
		scan, err := w.d.Query(ctx, query.Query{KeysOnly: w.loaded})
		if err != nil {
			w.failed(err)
			return
		}
		w.scan = scan
	}
	start := time.Now()
	for n := 0; n < scanStep && time.Since(start) < flushEvery/2; n++ {
		if w.entry == nil {
			r, more := w.scan.NextSync()
			if !more {
				w.endScan()
				w.loaded, w.next = true, time.Now().Add(tidyEvery)
				return
			}
			if r.Error != nil {
				w.failed(r.Error)
				return
			}
			w.entry = &r.Entry
		}
		if !w.read(ctx, *w.entry) {
			return
		}
		w.entry = nil
	}
}

// failed ends a scan that cannot go on; it begins anew in a minute.
func (w *persister) failed(err error) {
	w.endScan()
	w.next = time.Now().Add(time.Minute)
	w.log.Warn("stored provider records cannot be read", "error", err)
}

func (w *persister) endScan() {
	if w.scan != nil {
		_ = w.scan.Close() // of what was only read
	}
	w.scan, w.entry = nil, nil
}

// read takes one entry of the datastore, or reports that it could not now.
func (w *persister) read(ctx context.Context, e query.Entry) bool {
	at, err := parseSlot(e.Key)
	if err != nil {
		if err := w.d.Delete(ctx, ds.RawKey(e.Key)); err != nil {
			w.log.Warn("a key that is no record's cannot be deleted", "error", err)
		}
		w.count.WithLabelValues("refused").Inc()
		return true
	}
	if w.loaded {
		if len(w.store.look([]slot{at})) == 0 {
			w.store.touch(at)
		}
		return true
	}
	err = w.restore(ctx, at, e.Value)
	var refused *RecordError
	switch {
	case err == nil:
		w.count.WithLabelValues("restored").Inc()
	case errors.As(err, &refused):
		// Deleted, or written anew when RAM has taken another one meanwhile.
		w.store.touch(at)
		w.count.WithLabelValues("refused").Inc()
	default:
		return false // the verifier has no place
	}
	return true
}

// restore verifies a persisted record and gives it to the store.
func (w *persister) restore(ctx context.Context, at slot, value []byte) error {
	var wire wireProvider
	if err := canonical.Unmarshal(value, &wire); err != nil {
		return refuse(Malformed, err)
	}
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	rec, err := w.verify.open(ctx, wire.Envelope, wire.PeerRecord, at.root)
	if err != nil {
		return err
	}
	if rec.Provider != at.provider {
		return refuse(WrongProvider, nil)
	}
	return w.store.restore(rec, w.verify.now())
}
