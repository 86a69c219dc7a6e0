package store

import (
	"allium/internal/limits"
)

// Params are the fixed limits of the store, which no configuration changes. Tests set them through [Config].
type Params struct {
	// LowWater is the share of MaxBytes, MaxObjects or the disk at which an eviction ends. An eviction
	// begins half-way between LowWater and the limit.
	LowWater float64 `fixed:"low_water"`

	// SegmentBytes is the size at which a segment is closed and the next one begins. It is at least
	// twice CommitBytes, because a batch is never split between segments.
	SegmentBytes limits.Bytes `fixed:"segment_bytes"`

	// ZeroAheadBytes bounds the zeros written ahead of the end of the segment, so that commits need no
	// metadata; 0 turns them off. It is at most SegmentBytes.
	ZeroAheadBytes limits.Bytes `fixed:"zero_ahead_bytes"`

	// CommitBytes bounds the bytes of small objects waiting for a commit. Further puts wait. Two
	// batches fit, each with the largest record.
	CommitBytes limits.Bytes `fixed:"commit_bytes"`

	// CompactRate bounds the bytes per second that compaction moves. Compaction ignores it when space
	// is short.
	CompactRate limits.Bytes `fixed:"compact_rate"`

	// ScrubDuty is the largest share of the time that the background check works. ScrubRate limits it
	// as well.
	ScrubDuty float64 `fixed:"scrub_duty"`

	// PutsWait bounds the streaming puts that wait for one of Puts places. The next returns busy.
	PutsWait int64 `fixed:"puts_wait"`

	// Ingests bounds the downloads being written at once. Each uses at most 64 KiB of RAM and two
	// files. Further ones wait.
	Ingests int64 `fixed:"ingests"`

	// IngestsWait bounds the downloads that wait for one of Ingests places. The next returns busy.
	IngestsWait int64 `fixed:"ingests_wait"`

	// HashWorkers is the number of goroutines that hash one streaming put. The shared hashing queue bounds the total of
	// all puts.
	HashWorkers int `fixed:"hash_workers"`
}

// defaultParams returns the values in use outside of tests.
func defaultParams() Params {
	return Params{
		LowWater:       0.9,
		SegmentBytes:   256 << 20,
		ZeroAheadBytes: 32 << 20,
		CommitBytes:    8 << 20,
		CompactRate:    32 << 20,
		ScrubDuty:      0.1,
		PutsWait:       512,
		Ingests:        256,
		IngestsWait:    4096,
		HashWorkers:    2,
	}
}
