package persist

import (
	"context"
	"errors"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// Scan reads the next part of a scan if one is due. The first scan reads all
// records, later ones, every hour, only the keys. If records were left on disk and the
// clock has become right, a scan reads the records again at once.
// It reports whether the first scan has ended.
func (w *Persister[K]) Scan(ctx context.Context) (loaded bool) {
	w.continueScan(ctx)
	return w.loaded
}

func (w *Persister[K]) continueScan(ctx context.Context) {
	if w.scan == nil {
		right := w.MayExpire()
		if time.Now().Before(w.nextScan) && (!right || !w.leftOnDisk) {
			return
		}
		w.fullScan = !w.loaded || right && w.leftOnDisk
		scan, err := w.Datastore.Query(ctx, query.Query{KeysOnly: !w.fullScan})
		if err != nil {
			w.abortScan(err)
			return
		}
		w.scan = scan
		w.leftOnDisk = w.leftOnDisk && !w.fullScan
	}
	start := time.Now()
	for n := 0; n < scanBatch && time.Since(start) < flushEvery/2; n++ {
		if w.entry == nil {
			r, more := w.scan.NextSync()
			if !more {
				w.endScan()
				w.loaded, w.nextScan = true, time.Now().Add(rescanEvery)
				return
			}
			if r.Error != nil {
				w.abortScan(r.Error)
				return
			}
			w.entry = &r.Entry
		}
		if !w.handleEntry(ctx, *w.entry) {
			return
		}
		w.entry = nil
	}
}

// abortScan ends a scan that failed. The next one starts in a minute.
func (w *Persister[K]) abortScan(err error) {
	w.endScan()
	w.loaded = w.loaded && !w.fullScan // the next scan reads the remaining records
	w.nextScan = time.Now().Add(time.Minute)
	w.Log.Warn("cannot read stored records; will try again", "error", err)
}

func (w *Persister[K]) endScan() {
	if w.scan != nil {
		_ = w.scan.Close() // nothing was written
	}
	w.scan, w.entry = nil, nil
}

// handleEntry processes one entry of the datastore. It returns false if the verifier is
// busy; the same entry must then be tried again.
func (w *Persister[K]) handleEntry(ctx context.Context, e query.Entry) bool {
	at, err := w.table.ParsePath(e.Key)
	if err != nil {
		if err := w.Datastore.Delete(ctx, ds.RawKey(e.Key)); err != nil {
			w.Log.Warn("cannot delete an invalid key from the record datastore", "error", err)
		}
		w.Count.WithLabelValues("refused").Inc()
		return true
	}
	if here := w.holds(at); w.loaded && (here || !w.fullScan) {
		if !here && !w.leftOnDisk && w.MayExpire() {
			w.table.MarkChanged(at)
		}
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	err = w.table.Restore(ctx, at, e.Value)
	switch refused := errors.Is(err, ErrRefused); {
	case err == nil:
		w.Count.WithLabelValues("restored").Inc()
	case refused && !w.MayExpire():
		w.leftOnDisk = true // it may be valid once the clock is right
	case refused:
		// The next flush deletes it, or writes the record that RAM has received meanwhile.
		w.table.MarkChanged(at)
		w.Count.WithLabelValues("refused").Inc()
	default:
		return false // the verifier is busy
	}
	return true
}

// holds reports whether the table has a record.
func (w *Persister[K]) holds(key K) bool {
	held, err := w.table.Values([]K{key})
	return err == nil && len(held) > 0
}
