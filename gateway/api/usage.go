package api

import (
	"time"

	"allium/protocols/b3"
)

// StoreStat says what the store holds and where its bytes are, from counters.
// Counts of what happened begin with the process.
type StoreStat struct {
	Backend        string `json:"backend"`
	Objects        int64  `json:"objects"`
	Bytes          int64  `json:"bytes"`           // of objects, outboards left out
	SmallBytes     int64  `json:"small_bytes"`     // of those up to 64 KiB
	LargeBytes     int64  `json:"large_bytes"`     // of the others
	OutboardBytes  int64  `json:"outboard_bytes"`  // of the trees beside large ones
	PartialObjects int64  `json:"partial_objects"` // downloads under way or left half done
	PartialBytes   int64  `json:"partial_bytes"`   // that are here of them
	Uploads        int64  `json:"uploads"`         // in pieces, that are not whole
	UploadBytes    int64  `json:"upload_bytes"`    // that are here of them
	Corrupt        int64  `json:"corrupt"`         // objects that failed a check and are not served
	Leases         int    `json:"leases"`          // addresses in use
	Ingests        int    `json:"ingests"`         // downloads being written

	Space    StoreSpace `json:"space"`
	Segments Segments   `json:"segments"`
	Index    int64      `json:"index_bytes"` // on disk
	Hot      HotTier    `json:"hot"`
	Scrub    ScrubState `json:"scrub"`
	GC       GCState    `json:"gc"`
	WriteErr string     `json:"write_error,omitempty"` // why nothing is written until a restart
}

// StoreSpace is the space that the store uses and has left.
type StoreSpace struct {
	Used       GCCount `json:"used"`        // counted against Max: outboards, partial objects and puts under way too
	Max        GCCount `json:"max"`         // 0: no bound
	Low        GCCount `json:"low"`         // where an eviction ends
	Free       int64   `json:"free"`        // bytes on the disk, -1: it cannot tell
	Reserve    int64   `json:"reserve"`     // bytes that writes leave free
	Pinned     GCCount `json:"pinned"`      // when the latest collection looked
	Evictable  GCCount `json:"evictable"`   // likewise
	Full       bool    `json:"full"`        // writes are refused
	FullReason string  `json:"full_reason"` // and why
}

// Segments are the files of small objects.
type Segments struct {
	Files      int   `json:"files"`
	Bytes      int64 `json:"bytes"`      // of those files
	LiveBytes  int64 `json:"live_bytes"` // that are needed
	Spares     int   `json:"spares"`     // files kept to be used again
	SpareBytes int64 `json:"spare_bytes"`

	Compactions    int64 `json:"compactions"`     // segments that were compacted
	CompactedBytes int64 `json:"compacted_bytes"` // copied for that
	ReclaimedBytes int64 `json:"reclaimed_bytes"` // given back by it
}

// HotTier is the tier of verified objects in RAM, all zero without one.
type HotTier struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Hits    int64 `json:"hits"`
	Misses  int64 `json:"misses"`
}

// ScrubState is the progress of the background check.
type ScrubState struct {
	Running  bool      `json:"running"`
	Started  time.Time `json:"started,omitzero"`  // of this cycle, or of the last one
	Objects  int64     `json:"objects"`           // checked in it
	Bytes    int64     `json:"bytes"`             // of them
	Bad      int64     `json:"bad"`               // of them could not be proved
	Progress float64   `json:"progress"`          // 0 to 1
	LastEnd  time.Time `json:"last_end,omitzero"` // of the last whole cycle
	LastBad  int64     `json:"last_bad"`          // objects that it could not prove
}

// GCState holds the results of collections, dry ones left out.
type GCState struct {
	Runs        int64     `json:"runs"`
	LastEnd     time.Time `json:"last_end,omitzero"`
	LastTookMS  float64   `json:"last_took_ms"`
	LastRemoved GCCount   `json:"last_removed"`
}

// Damage is one place in the store that is not what was written there.
type Damage struct {
	Kind string `json:"kind"` // log, body, file, note, index, format or object
	// "open" (something may be lost), "mended" (nothing was), "repaired" (it is back, from peers) or "accepted"
	State  string `json:"state"`
	File   string `json:"file"`   // below the store's directory
	Offset int64  `json:"offset"` // of the first damaged byte
	Length int64  `json:"length"` // bytes; 0 where that has no meaning
	// bytes of lost records whose objects are unknown
	Left  int64     `json:"left"`
	Roots []b3.Root `json:"roots,omitempty"` // objects that are known to be affected, the first 16
	Cause string    `json:"reason"`
	Found time.Time `json:"found,omitzero"` // zero for an object, which is listed while it is damaged
	Ended time.Time `json:"ended,omitzero"` // when it was no longer open
}

// DamageReport is the damage of a store.
type DamageReport struct {
	Open int `json:"open"` // findings that are open: nothing is evicted
	// open findings whose loss is unknown: until they end, nothing is added, uploaded or pinned
	Unknown int      `json:"unknown"`
	Damage  []Damage `json:"damage"`  // oldest first, then damaged objects by address
	Objects int      `json:"objects"` // damaged objects that are listed, at most 4096: they stop no evictions
}
