package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/store/cache"
	"allium/store/disk"
	"allium/store/fsys"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/scrub"
	"allium/store/upload"
)

// Stats are counters, kept in RAM.
type Stats struct {
	Backend string      `json:"backend"` // of the configuration
	Objects int64       `json:"objects"`
	Bytes   int64       `json:"bytes"`   // of objects, outboards and overhead left out
	Corrupt int64       `json:"corrupt"` // objects that failed a check and wait for a new copy
	Leases  int         `json:"leases"`  // addresses in use
	Ingests int         `json:"ingests"` // downloads being written
	Hot     cache.Stats `json:"hot"`
	Scrub   scrub.Stats `json:"scrub"`
	// Of objects of which a part is here, in use or not.
	PartialObjects int64            `json:"partial_objects"`
	PartialBytes   int64            `json:"partial_bytes"` // that are here
	PartialWaits   int64            `json:"partial_waits"` // writes that waited until what came before was noted
	Uploads        upload.Stats     `json:"uploads"`
	Usage          meta.Usage       `json:"usage"` // all zero but while the store is open
	GC             gc.Runs          `json:"gc"`
	Files          fsys.Descriptors `json:"files"`
	WriteErr       error            `json:"-"` // why nothing more is written until a restart; nil when all is well
	BucketErr      error            `json:"-"` // why the bucket of the s3 backend cannot be used for now; nil when it can
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
	case e.Corrupt:
		return Info{}, corrupt(root, "it failed a check before")
	}
	return infoOf(e), nil
}

func infoOf(e meta.Entry) Info { return Info{Root: e.Root, Size: e.Size, Corrupt: e.Corrupt} }

// Has answers for each of roots, in order, whether it can be served.
func (s *Store) Has(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	answers := make([]b3.Presence, len(roots))
	for i, root := range roots {
		e, ok, err := s.find(root)
		if err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", root, err)
		}
		if ok && !e.Corrupt {
			answers[i] = b3.Complete
			continue
		}
		_, ok, err = s.partials.Find(root)
		if err != nil {
			return nil, fmt.Errorf("store: look up %s: %w", root, err)
		}
		if ok {
			answers[i] = b3.Partial
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
			if !yield(infoOf(e), err) {
				return
			}
		}
	}
}

func (s *Store) entries(ctx context.Context) iter.Seq2[meta.Entry, error] {
	return func(yield func(meta.Entry, error) bool) {
		var from b3.Root
		buf := make([]meta.Entry, 0, meta.PageSize)
		for more := true; more; {
			page, err := s.entryPage(ctx, from, buf)
			if err != nil {
				yield(meta.Entry{}, fmt.Errorf("store: list: %w", err))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if more = len(page) == cap(buf); more {
				from, more = meta.NextRoot(page[len(page)-1].Root)
			}
		}
	}
}

func (s *Store) entryPage(ctx context.Context, from b3.Root, buf []meta.Entry) ([]meta.Entry, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.backend.Entries(from, buf)
}

// Wanted says whether an object, damaged or not, was used within a time or is
// kept by a pin: not_found when it is not there. It may walk what is pinned.
func (s *Store) Wanted(ctx context.Context, root b3.Root, within time.Duration) (bool, error) {
	e, used, err := s.lastUse(ctx, root)
	if err != nil {
		return false, err
	}
	if used >= meta.SecondOf(time.Now().Add(-within)) {
		return true, nil
	}
	pinned, _, err := s.Pinned(ctx, e.Root)
	return pinned, err
}

// lastUse finds an object and when it was used last.
func (s *Store) lastUse(ctx context.Context, root b3.Root) (meta.Entry, meta.Second, error) {
	if err := s.admit(ctx); err != nil {
		return meta.Entry{}, 0, err
	}
	defer s.leave()
	e, ok, err := s.find(root)
	if err != nil {
		return e, 0, fmt.Errorf("store: look up %s: %w", root, err)
	}
	if !ok {
		return e, 0, notFound(root)
	}
	used, err := s.backend.UsedAt(e)
	if err != nil {
		return e, 0, fmt.Errorf("store: look up %s: %w", root, err)
	}
	return e, max(used, s.uses.UsedAt(root)), nil
}

// Stats returns the counters. It reads no file and works in every phase.
func (s *Store) Stats() Stats {
	t, parts := s.backend.Totals(), s.partials.Stats()
	st := Stats{Backend: s.cfg.Backend, Objects: t.Objects.Load(), Bytes: t.Bytes.Load(), Corrupt: t.Corrupt.Load(), Leases: s.leases.Leased(),
		PartialObjects: parts.Objects, PartialBytes: parts.Bytes, PartialWaits: parts.Waits, Ingests: parts.Ingests,
	}
	st.Uploads = s.uploads.Stats()
	if d, ok := s.backend.(*disk.Backend); ok {
		st.Files = d.Descriptors()
	}
	st.Scrub, st.GC = s.scrub.Stats(), s.gc.Runs()
	st.Hot = s.ramCache.Stats()
	if s.admission.Opened() {
		st.WriteErr = s.backend.Failure()
		st.BucketErr = s.backend.Away()
	}
	if s.enter() == nil {
		defer s.leave()
		st.Usage = s.backend.Usage()
	}
	return st
}
