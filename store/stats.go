package store

import (
	"allium/store/arriving/resumable"
	"allium/store/cache"
	"allium/store/disk/fsys"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/ram/arena"
	"allium/store/scrub"
)

// Stats are the store's counters, which are kept in RAM.
type Stats struct {
	Backend string      `json:"backend"` // Config.Backend
	Objects int64       `json:"objects"`
	Bytes   int64       `json:"bytes"`   // of objects, without outboards and overhead
	Corrupt int64       `json:"corrupt"` // objects that failed a check and wait for a new copy
	Leases  int         `json:"leases"`  // leased addresses
	Ingests int         `json:"ingests"` // downloads being written
	Hot     cache.Stats `json:"hot"`     // the RAM cache
	Scrub   scrub.Stats `json:"scrub"`

	PartialObjects int64 `json:"partial_objects"` // partial objects, in use or not
	PartialBytes   int64 `json:"partial_bytes"`   // bytes of them that are stored
	PartialWaits   int64 `json:"partial_waits"`   // writes that waited for a checkpoint of their download

	Uploads   resumable.Stats  `json:"uploads"`
	Usage     meta.Usage       `json:"usage"` // zero unless the store is open
	GC        gc.Runs          `json:"gc"`
	Files     fsys.Descriptors `json:"files"`
	WriteErr  error            `json:"-"` // why the store writes nothing until a restart; nil if it writes
	BucketErr error            `json:"-"` // why the s3 backend cannot use its bucket now; nil if it can
}

// Stats returns the counters. It reads no file. It works before Run and while
// the store closes.
func (s *Store) Stats() Stats {
	t, parts := s.backend.Totals(), s.partials.Stats()
	st := Stats{
		Backend: s.cfg.Backend,
		Objects: t.Objects.Load(), Bytes: t.Bytes.Load(), Corrupt: t.Corrupt.Load(),
		Leases: s.leases.Leased(), Ingests: parts.Ingests, Hot: s.ramCache.Stats(), Scrub: s.scrub.Stats(),
		PartialObjects: parts.Objects, PartialBytes: parts.Bytes, PartialWaits: parts.Waits,
		Uploads: s.uploads.Stats(), GC: s.gc.Runs(), Files: s.backend.Descriptors(),
	}
	if s.admission.Opened() {
		st.WriteErr = s.backend.Failure()
		st.BucketErr = s.backend.Away()
	}
	if s.admission.Enter() == nil {
		defer s.admission.Leave()
		st.Usage = s.backend.Usage()
	}
	return st
}

// RAM returns the memory backend's use of RAM in bytes. It is zero for other
// backends, and before Run calls ready.
func (s *Store) RAM() arena.Stats {
	if a := s.arena(); a != nil {
		return a.Stats()
	}
	return arena.Stats{}
}

// MlockError returns why the system may write the memory backend's bytes to swap.
// It returns nil when it may not, for other backends, and before Run calls ready.
func (s *Store) MlockError() error {
	if a := s.arena(); a != nil {
		return a.LockError()
	}
	return nil
}

// arena returns the memory backend's arena, or nil.
func (s *Store) arena() *arena.Arena {
	if !s.admission.Opened() {
		return nil
	}
	return s.backend.Arena()
}

// Recovered returns how many records and objects Run has looked at while it
// opens the store.
func (s *Store) Recovered() int64 { return s.recovered.Load() }
