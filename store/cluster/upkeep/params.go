package upkeep

import "time"

// The bounds of a Service.
const (
	maxObjects = 1 << 20 // objects with targets that are planned
	maxActive  = 1 << 16 // of them, those that something happens to, and that are more than a few bytes
	maxScan    = 1 << 17 // pins that a tick looks at
	maxCalls   = 1 << 12 // actions that a tick begins
	maxMoves   = 1 << 10 // objects that a tick looks at for a copy to move, if nothing is missing
	// maxEncoding bounds the objects that are to be coded, and are remembered while that fails.
	maxEncoding = 1 << 10
	// maxDoubled bounds how often the wait after a coding that failed doubles.
	maxDoubled = 5
	callLimit  = 8 // members that are asked at once
	// maxPinned bounds the pins that the next tick looks at before all others.
	maxPinned = 256
	// soon is the part of a tick after which the first one follows the start, and at most that after which one follows
	// that was asked for. That one follows after wakeLeast to wakeMost: ticks take a tenth of the time at most, and a
	// quarter while somebody waits for copies.
	soon      = 60
	wakeLeast = 5 * time.Millisecond
	wakeMost  = 100 * time.Millisecond
	wakeTicks = 9 // of the latest one
	wakeSoon  = 3 // the same while somebody waits
	// awaitedTicks is the number of ticks in the time of a usual one while somebody waits for copies.
	awaitedTicks = 12
	// awaitedFor is the time after a target was set in which there are so many.
	awaitedFor = 10 * time.Minute
	// speedFor is the time for which the rate of the latest sends is used to estimate the next ones.
	speedFor = 10 * time.Minute
	// challengeTime and tellTime are the times that a member has for an answer. A late one is busy.
	challengeTime = 10 * time.Second
	awaitedTime   = time.Second           // if somebody waits for copies
	proofTime     = 10 * time.Millisecond // more for each object
	tellTime      = time.Second
	keepTime      = 30 * time.Millisecond // more for each target, which is made durable
	// ahead is the longest time by which the clock of another member may be ahead, in the number of a target.
	ahead = 2 * time.Minute
	// keepRemoved is the time for which the record of a removed target is kept.
	keepRemoved = 30 * 24 * time.Hour
)
