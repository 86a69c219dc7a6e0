package dht

import (
	"context"
	"errors"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// step reads on, if it is time: first all records, then every hour the keys. The
// records are read again, without waiting, when some were left on disk by a clock
// that has become right.
func (w *persister) step(ctx context.Context) {
	if w.scan == nil {
		right := w.mayExpire()
		if time.Now().Before(w.next) && (!right || !w.kept) {
			return
		}
		w.again = !w.loaded || right && w.kept
		scan, err := w.d.Query(ctx, query.Query{KeysOnly: !w.again})
		if err != nil {
			w.failed(err)
			return
		}
		w.scan = scan
		w.kept = w.kept && !w.again
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
	w.loaded = w.loaded && !w.again // what it left is read by the next one
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
	if here := len(w.store.look([]slot{at})) > 0; w.loaded && (here || !w.again) {
		if !here && !w.kept && w.mayExpire() {
			w.store.touch(at)
		}
		return true
	}
	err = w.restore(ctx, at, e.Value)
	var refused *RecordError
	switch {
	case err == nil:
		w.count.WithLabelValues("restored").Inc()
	case errors.As(err, &refused) && !w.mayExpire():
		w.kept = true // it may be good by a clock that is right
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
	stored, err := parseStored(value)
	if err != nil {
		return refuse(Malformed, err)
	}
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	rec, err := w.verify.open(ctx, stored.Envelope, stored.PeerRecord, at.root)
	if err != nil {
		return err
	}
	rec.source = source{group: string(stored.Group), reached: stored.Reached}
	if stored.old {
		rec.group = claimed(rec)
	}
	if rec.Provider != at.provider {
		return refuse(WrongProvider, nil)
	}
	return w.store.restore(rec, w.verify.now())
}
