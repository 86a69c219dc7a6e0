package meta

// Usage says what the bytes of a store are used for. The counters of compaction
// begin at 0 with each process.
type Usage struct {
	Segments         int   `json:"segments"`           // segment files, without spare ones
	Spares           int   `json:"spares"`             // files of retired segments, to be reused
	SpareBytes       int64 `json:"spare_bytes"`        // bytes of the spare files
	SegmentBytes     int64 `json:"segment_bytes"`      // bytes of segments and spare files
	SegmentLiveBytes int64 `json:"segment_live_bytes"` // bytes of records that are still needed
	LargeBytes       int64 `json:"large_bytes"`        // bytes of objects in their own files
	OutboardBytes    int64 `json:"outboard_bytes"`     // bytes of the outboards of those objects
	IndexBytes       int64 `json:"index_bytes"`        // bytes of the index on disk
	QuarantineFiles  int64 `json:"quarantine_files"`   // files in quarantine/, which belong to no object
	QuarantineBytes  int64 `json:"quarantine_bytes"`   // bytes of those files
	// free bytes of the disk, store.reserve_bytes included; 0: unknown
	FreeBytes    int64 `json:"free_bytes"`
	BallastBytes int64 `json:"ballast_bytes"` // of FreeBytes, those kept for removals on a full disk

	Compactions    int64 `json:"compactions"`     // compacted segments
	CompactedBytes int64 `json:"compacted_bytes"` // bytes that compaction copied
	ReclaimedBytes int64 `json:"reclaimed_bytes"` // bytes that compaction freed
}
