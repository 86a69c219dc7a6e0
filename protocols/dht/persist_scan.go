package dht

import (
	"context"
	"errors"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// continueScan reads the next part of a scan if one is due. The first scan reads all
// records, later ones, every hour, only the keys. If records were left on disk and the
// clock has become right, a scan reads the records again at once.
func (w *persister) continueScan(ctx context.Context) {
	if w.scan == nil {
		right := w.mayExpire()
		if time.Now().Before(w.nextScan) && (!right || !w.leftOnDisk) {
			return
		}
		w.fullScan = !w.loaded || right && w.leftOnDisk
		scan, err := w.datastore.Query(ctx, query.Query{KeysOnly: !w.fullScan})
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
func (w *persister) abortScan(err error) {
	w.endScan()
	w.loaded = w.loaded && !w.fullScan // the next scan reads the remaining records
	w.nextScan = time.Now().Add(time.Minute)
	w.log.Warn("cannot read stored provider records; will try again", "error", err)
}

func (w *persister) endScan() {
	if w.scan != nil {
		_ = w.scan.Close() // nothing was written
	}
	w.scan, w.entry = nil, nil
}

// handleEntry processes one entry of the datastore. It returns false if the verifier is
// busy; the same entry must then be tried again.
func (w *persister) handleEntry(ctx context.Context, e query.Entry) bool {
	at, err := parseRecordKey(e.Key)
	if err != nil {
		if err := w.datastore.Delete(ctx, ds.RawKey(e.Key)); err != nil {
			w.log.Warn("cannot delete an invalid key from the record datastore", "error", err)
		}
		w.count.WithLabelValues("refused").Inc()
		return true
	}
	if here := len(w.store.lookup([]recordKey{at})) > 0; w.loaded && (here || !w.fullScan) {
		if !here && !w.leftOnDisk && w.mayExpire() {
			w.store.markDirty(at)
		}
		return true
	}
	err = w.restore(ctx, at, e.Value)
	var refused *RecordError
	switch {
	case err == nil:
		w.count.WithLabelValues("restored").Inc()
	case errors.As(err, &refused) && !w.mayExpire():
		w.leftOnDisk = true // it may be valid once the clock is right
	case errors.As(err, &refused):
		// The next flush deletes it, or writes the record that RAM has received meanwhile.
		w.store.markDirty(at)
		w.count.WithLabelValues("refused").Inc()
	default:
		return false // the verifier is busy
	}
	return true
}

// restore verifies a persisted record and adds it to the store.
func (w *persister) restore(ctx context.Context, at recordKey, value []byte) error {
	stored, err := parseStored(value)
	if err != nil {
		return refuse(Malformed, err)
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	rec, err := w.verify.open(ctx, stored.Envelope, stored.PeerRecord, at.root)
	if err != nil {
		return err
	}
	rec.source = source{group: string(stored.Group), reached: stored.Reached}
	if stored.old {
		rec.group = groupOfAddrs(rec)
	}
	if rec.Provider != at.provider {
		return refuse(WrongProvider, nil)
	}
	return w.store.restore(rec, w.verify.now())
}
