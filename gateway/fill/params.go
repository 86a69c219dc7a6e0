package fill

import (
	"time"

	"allium/gateway/fill/origin"
)

// Params are the fixed limits of live fill. Tests set other values.
type Params struct {
	Waiting  int           // fills that wait for a worker; the next one is refused with busy
	Queue    time.Duration // the longest wait for a worker; then the fill ends with timeout
	Waiters  int64         // requests that wait for fills
	Stale    time.Duration // the longest wait for a fill, from its beginning, where a stale copy may be served
	Records  int           // records in RAM; the least recently used is dropped
	Expected int           // addresses of manifests in RAM; the least recently used is dropped
	Lookup   time.Duration // the longest lookup in a manifest

	// Longest bounds one fill, beside the time that Config.FillBytes take at MinRate bytes per second.
	Longest time.Duration
	MinRate int64

	Origin origin.Params
}

// DefaultParams returns the limits of SPEC §2 and §9.
func DefaultParams() Params {
	return Params{
		Waiting: 512, Queue: 5 * time.Second, Waiters: 4096, Stale: 500 * time.Millisecond,
		Records: 8192, Expected: 8192, Lookup: 5 * time.Second,
		Longest: 10 * time.Minute, MinRate: 256 << 10, Origin: origin.DefaultParams(),
	}
}

// waitersPart bounds one client to a part of the free places of Params.Waiters.
const waitersPart = 4

// recordSlots is the number of records in the database: a record overwrites the one in its slot.
const recordSlots = 1 << 16
