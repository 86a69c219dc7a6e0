package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
)

// Presence says whether a store can serve an object.
type Presence uint8

// The answers of Has, with the values of OAP1.md §9.
const (
	Absent Presence = iota
	Complete
	PartlyHere
)

// pageSize is how many entries a listing holds at a time.
const pageSize = 256

// Stats are counters, kept in RAM.
type Stats struct {
	Backend string `json:"backend"` // of the configuration
	Objects int64  `json:"objects"`
	Bytes   int64  `json:"bytes"`   // of objects, outboards and overhead left out
	Corrupt int64  `json:"corrupt"` // objects that failed a check and wait for a new copy
	Leases  int    `json:"leases"`  // addresses in use
	Ingests int    `json:"ingests"` // downloads being written
	Hot     Hot    `json:"hot"`
	Scrub   Scrub  `json:"scrub"`
	// Of objects of which a part is here, in use or not.
	PartialObjects int64   `json:"partial_objects"`
	PartialBytes   int64   `json:"partial_bytes"` // that are here
	Uploads        Uploads `json:"uploads"`
	Usage          Usage   `json:"usage"` // all zero but while the store is open
	GC             Runs    `json:"gc"`
	WriteErr       error   `json:"-"` // why nothing more is written until a restart; nil when all is well
	BucketErr      error   `json:"-"` // why the bucket of the s3 backend cannot be used for now; nil when it can
}

// Usage is where the bytes of a store are. The counters begin with the process.
type Usage struct {
	Segments         int   `json:"segments"`           // files of small objects, spare ones left out
	Spares           int   `json:"spares"`             // files of retired segments, kept to be used again
	SpareBytes       int64 `json:"spare_bytes"`        // of those
	SegmentBytes     int64 `json:"segment_bytes"`      // of those files and the spare ones
	SegmentLiveBytes int64 `json:"segment_live_bytes"` // of records in them that are needed
	LargeBytes       int64 `json:"large_bytes"`        // of objects in files of their own
	OutboardBytes    int64 `json:"outboard_bytes"`     // beside those
	IndexBytes       int64 `json:"index_bytes"`        // of the index on disk
	FreeBytes        int64 `json:"free_bytes"`         // that the disk has left, store.reserve_bytes among them; 0 where it cannot tell

	Compactions    int64 `json:"compactions"`     // segments that were compacted
	CompactedBytes int64 `json:"compacted_bytes"` // that were copied for that
	ReclaimedBytes int64 `json:"reclaimed_bytes"` // that were given back by it
}

// Runs are the garbage collections since the start, dry ones left out.
type Runs struct {
	Ended       int64         `json:"ended"`
	LastEnd     time.Time     `json:"last_end,omitzero"` // of the last one; zero: there was none
	LastTook    time.Duration `json:"last_took"`
	LastRemoved GCCount       `json:"last_removed"`
}

// Hot is the tier of verified objects in RAM, all zero without one.
type Hot struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`  // with what they cost beside their own
	Hits    int64 `json:"hits"`   // opens that it answered
	Misses  int64 `json:"misses"` // opens that it did not
}

// Uploads are the uploads in pieces. What became of them counts from the start
// of the process.
type Uploads struct {
	Open    int64 `json:"open"`    // not whole
	Bytes   int64 `json:"bytes"`   // of those, that are here
	Whole   int64 `json:"whole"`   // became objects
	Expired int64 `json:"expired"` // removed since nothing came for long
	Dropped int64 `json:"dropped"` // removed otherwise: on demand, of other bytes than expected, or since the disk lost them
}

// Stat returns address and size of a visible object: not_found when it is not
// there, corrupt when it is damaged.
func (s *Store) Stat(ctx context.Context, root b3.Root) (Info, error) {
	if err := s.admit(ctx); err != nil {
		return Info{}, err
	}
	defer s.leave()
	e, ok, err := s.find(root)
	switch {
	case err != nil:
		return Info{}, fmt.Errorf("store: stat %s: %w", root, err)
	case !ok:
		return Info{}, notFound(root)
	case e.corrupt:
		return Info{}, corrupt(root, "it failed a check before")
	}
	return e.info(), nil
}

func (e entry) info() Info { return Info{Root: e.root, Size: e.size, Corrupt: e.corrupt} }

// Has answers for each of roots, in order, whether it can be served.
func (s *Store) Has(ctx context.Context, roots []b3.Root) ([]Presence, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	answers := make([]Presence, len(roots))
	for i, root := range roots {
		e, ok, err := s.find(root)
		if err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", root, err)
		}
		if ok && !e.corrupt {
			answers[i] = Complete
			continue
		}
		_, ok, err = s.partial(root)
		if err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", root, err)
		}
		if ok {
			answers[i] = PartlyHere
		}
	}
	return answers, nil
}

// List yields the objects in order of address, damaged ones included. It holds
// one page at a time and no snapshot: what is put or deleted meanwhile may or
// may not show. An error ends it.
func (s *Store) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for e, err := range s.entries(ctx) {
			if !yield(e.info(), err) {
				return
			}
		}
	}
}

func (s *Store) entries(ctx context.Context) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		var from b3.Root
		buf := make([]entry, 0, pageSize)
		for more := true; more; {
			page, err := s.entryPage(ctx, from, buf)
			if err != nil {
				yield(entry{}, fmt.Errorf("store: list: %w", err))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if more = len(page) == cap(buf); more {
				from, more = next(page[len(page)-1].root)
			}
		}
	}
}

func (s *Store) entryPage(ctx context.Context, from b3.Root, buf []entry) ([]entry, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.backend.entries(from, buf)
}

// Wanted says whether an object, damaged or not, was used within a time or is
// kept by a pin: not_found when it is not there. It may walk what is pinned.
func (s *Store) Wanted(ctx context.Context, root b3.Root, within time.Duration) (bool, error) {
	e, used, err := s.lastUse(ctx, root)
	if err != nil {
		return false, err
	}
	if used >= secondOf(time.Now().Add(-within)) {
		return true, nil
	}
	pinned, _, err := s.Pinned(ctx, e.root)
	return pinned, err
}

// lastUse finds an object and when it was used last.
func (s *Store) lastUse(ctx context.Context, root b3.Root) (entry, second, error) {
	if err := s.admit(ctx); err != nil {
		return entry{}, 0, err
	}
	defer s.leave()
	e, ok, err := s.find(root)
	if err != nil {
		return e, 0, fmt.Errorf("store: look up %s: %w", root, err)
	}
	if !ok {
		return e, 0, notFound(root)
	}
	used, err := s.backend.usedAt(e)
	if err != nil {
		return e, 0, fmt.Errorf("store: look up %s: %w", root, err)
	}
	return e, max(used, s.touches.usedAt(root)), nil
}

// Stats returns the counters. It reads no file and works in every phase.
func (s *Store) Stats() Stats {
	t := s.backend.totals()
	st := Stats{Backend: s.cfg.Backend, Objects: t.objects.Load(), Bytes: t.bytes.Load(), Corrupt: t.corrupt.Load(), Leases: s.roots.leased(),
		PartialObjects: s.partials.objects.Load(), PartialBytes: s.partials.bytes.Load(),
	}
	st.Uploads = s.uploads.stats()
	s.mu.Lock()
	st.Ingests = len(s.running)
	wasOpen := s.phase >= opened
	s.mu.Unlock()
	st.Scrub, st.GC = s.scrub.stats(), s.gc.runs()
	if h := s.hot; h != nil {
		st.Hot = Hot{Objects: h.objects.Load(), Bytes: h.bytes.Load(), Hits: h.hits.Load(), Misses: h.misses.Load()}
	}
	if wasOpen {
		st.WriteErr = s.backend.failure()
		st.BucketErr = s.backend.away()
	}
	if s.enter() == nil {
		defer s.leave()
		st.Usage = s.backend.usage()
	}
	return st
}
