package persist

import (
	"context"
	"errors"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/jitter"
	"allium/protocols/status"
)

// Bounds and intervals of persistence.
const (
	flushEvery    = time.Second
	flushTimeout  = 5 * time.Second  // of the last flush
	noSpacePause  = 30 * time.Second // after a flush that failed for lack of space; deletions may free some
	scanBatch     = 512              // most records read between two flushes; each takes about 0.25 ms to verify
	rewriteBatch  = 4 << 10          // records marked for rewriting between two flushes
	lookupBatch   = 256              // records looked up while the table is locked once
	verifyTimeout = time.Second      // wait for the verifier; then the next step tries again
	rescanEvery   = time.Hour
)

// Table holds the records in RAM. Its methods are safe for concurrent use.
type Table[K comparable] interface {
	// Path returns the key of a record in the datastore.
	Path(key K) ds.Key
	// ParsePath is the inverse of Path. It refuses any other key.
	ParsePath(path string) (K, error)
	// Keys lists the keys of all records.
	Keys() []K
	// Values returns the stored form of each of at most 256 keys that has a record.
	Values(keys []K) (map[K][]byte, error)
	// Restore verifies a stored value and adds its record to the table. An error that
	// wraps [ErrRefused] says that the value is no valid record; after any other error the
	// same value is passed again.
	Restore(ctx context.Context, key K, value []byte) error
	// TakeChanges returns the keys that changed since the last call, oldest first, and how
	// many more were dropped.
	TakeChanges() (changed []K, dropped int)
	// MarkChanged adds keys to the changes.
	MarkChanged(keys ...K)
}

// ErrRefused marks the error of [Table.Restore] for a value that is no valid record.
var ErrRefused = errors.New("the stored record is not valid")

// Deps holds the dependencies of a [Persister].
type Deps struct {
	env.Env

	// Datastore keeps the records. Nothing else may use it; the caller closes it after Run
	// has returned. nil: nothing is persisted.
	Datastore ds.Batching
	// Replacements returns how often Datastore was replaced by an empty one.
	Replacements func() uint64
	// MayExpire reports that the clock is right, so that refused records may be deleted.
	MayExpire func() bool
	// Count counts records by result: stored, deleted, dropped, failed, restored, refused.
	Count *prometheus.CounterVec
}

// Persister copies the records of a table to a datastore and back.
type Persister[K comparable] struct {
	Deps
	table Table[K]

	// Used only by Run.
	scan         query.Results // nil between two scans
	entry        *query.Entry  // entry of the scan that waits for the verifier
	fullScan     bool          // the scan reads records, not only keys
	loaded       bool          // the first scan has ended
	leftOnDisk   bool          // records were refused and left on disk, because the clock may have been wrong
	nextScan     time.Time     // when the next scan starts
	failing      bool          // no flush has succeeded since the last failure
	pausedUntil  time.Time     // no flush before this time
	replacements uint64        // last value of countReplacements
	rewrite      []K           // records still to write again
}

// New returns a persister of the records in table. It starts nothing.
func New[K comparable](table Table[K], d Deps) *Persister[K] {
	d.Env.SetDefaults()
	return &Persister[K]{Deps: d, table: table}
}

// Run reads and writes until ctx ends, then writes once more.
func (w *Persister[K]) Run(ctx context.Context) {
	if w.Datastore == nil {
		return
	}
	w.replacements = w.Replacements()
	tick := time.NewTimer(jitter.Gather(flushEvery))
	defer tick.Stop()
	for ctx.Err() == nil {
		w.checkReplaced()
		w.Scan(ctx)
		select {
		case <-tick.C:
			tick.Reset(jitter.Gather(flushEvery))
			if !time.Now().Before(w.pausedUntil) {
				w.Flush(ctx)
			}
		case <-ctx.Done():
		}
	}
	w.endScan()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	w.Flush(ctx)
}

// checkReplaced starts over if the datastore was replaced, and marks the next records that
// must be written again.
func (w *Persister[K]) checkReplaced() {
	if n := w.Replacements(); n != w.replacements {
		w.replacements = n
		w.endScan()
		w.loaded, w.nextScan, w.pausedUntil = false, time.Time{}, time.Time{}
		w.rewrite = w.table.Keys()
	}
	n := min(len(w.rewrite), rewriteBatch)
	w.table.MarkChanged(w.rewrite[:n]...)
	w.rewrite = w.rewrite[n:]
}

// Flush writes the changes. Changes that cannot be written wait for the next flush. If the
// disk is full, that one comes after noSpacePause.
func (w *Persister[K]) Flush(ctx context.Context) {
	changed, dropped := w.table.TakeChanges()
	w.Count.WithLabelValues("dropped").Add(float64(dropped))
	if len(changed) == 0 {
		return
	}
	stored, err := w.write(ctx, changed)
	if err != nil {
		w.Count.WithLabelValues("failed").Add(float64(len(changed)))
		w.table.MarkChanged(changed...)
		if !w.failing {
			w.Log.Warn("cannot store records: new ones are lost at a restart until they are published again. "+
				"Check that the disk has space and is writable", "error", err)
		}
		w.failing = true
		if status.Of(err) == status.NoSpace {
			w.pausedUntil = time.Now().Add(noSpacePause)
		}
		return
	}
	w.failing = false
	w.Count.WithLabelValues("stored").Add(float64(stored))
	w.Count.WithLabelValues("deleted").Add(float64(len(changed) - stored))
}

// write makes the datastore agree with RAM for the changed records, all of them or none.
func (w *Persister[K]) write(ctx context.Context, changed []K) (stored int, err error) {
	batch, err := w.Datastore.Batch(ctx)
	if err != nil {
		return 0, err
	}
	for len(changed) > 0 {
		n := min(len(changed), lookupBatch)
		held, err := w.table.Values(changed[:n])
		if err != nil {
			return 0, err
		}
		for _, key := range changed[:n] {
			if value, ok := held[key]; ok {
				err = batch.Put(ctx, w.table.Path(key), value)
				stored++
			} else {
				err = batch.Delete(ctx, w.table.Path(key))
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
	return stored, w.Datastore.Sync(ctx, ds.NewKey("/"))
}
