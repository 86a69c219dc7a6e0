package meta

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
	QuarantineFiles  int64 `json:"quarantine_files"`   // files that nothing accounts for, in quarantine/
	QuarantineBytes  int64 `json:"quarantine_bytes"`   // of those
	FreeBytes        int64 `json:"free_bytes"`         // that the disk has left, store.reserve_bytes among them; 0 where it cannot tell
	BallastBytes     int64 `json:"ballast_bytes"`      // of those, that the store holds for removals on a full disk

	Compactions    int64 `json:"compactions"`     // segments that were compacted
	CompactedBytes int64 `json:"compacted_bytes"` // that were copied for that
	ReclaimedBytes int64 `json:"reclaimed_bytes"` // that were given back by it
}
