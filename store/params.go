package store

import (
	"allium/internal/limits"
)

// Params are the numbers of the store that nobody tunes. Tests set them through [Config].
type Params struct {
	// LowWater is the share of MaxBytes, MaxObjects or the disk at which an eviction ends. It begins
	// half-way between this and the bound.
	LowWater float64 `fixed:"low_water"`

	// SegmentBytes is the size at which the segment of small objects is closed and the next begun. It
	// is at least twice CommitBytes, as a batch is never split over two.
	SegmentBytes limits.Bytes `fixed:"segment_bytes"`

	// ZeroAheadBytes bounds the zeros written ahead of the end of the segment, so that commits need no
	// metadata; 0 turns them off. It is at most SegmentBytes.
	ZeroAheadBytes limits.Bytes `fixed:"zero_ahead_bytes"`

	// CommitBytes bounds the bytes of small objects waiting for a commit. Further puts wait. It has
	// room for two batches, each with the largest record.
	CommitBytes limits.Bytes `fixed:"commit_bytes"`

	// CompactRate bounds the bytes a second that the compaction of segments moves. When space is short
	// it does not wait.
	CompactRate limits.Bytes `fixed:"compact_rate"`

	// ScrubDuty is the share of the time that the background check works at most, beside ScrubRate.
	ScrubDuty float64 `fixed:"scrub_duty"`

	// PutsWait bounds the streaming puts waiting for one of Puts places. The next gets busy.
	PutsWait int64 `fixed:"puts_wait"`

	// Ingests bounds the downloads being written at once, with at most 64 KiB of RAM and two files
	// each. Further ones wait.
	Ingests int64 `fixed:"ingests"`

	// IngestsWait bounds the downloads waiting for one of Ingests places. The next gets busy.
	IngestsWait int64 `fixed:"ingests_wait"`

	// HashWorkers is how many goroutines hash one streaming put. The shared hashing queue bounds those
	// of all.
	HashWorkers int `fixed:"hash_workers"`
}

// defaultParams returns the values that hold.
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
