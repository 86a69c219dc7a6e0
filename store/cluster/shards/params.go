package shards

import "time"

const (
	// maxStreams is the maximum number of encodings and rebuilds under way. Each has a window of each shard in RAM.
	maxStreams = 2
	// window is the number of bytes of each shard that an encoding or a rebuild has in RAM, in whole groups.
	window = 128 << 10
	// readPermits bounds the windows that are fetched for readers at once, and readsWait those that wait; further
	// readers get busy.
	readPermits = 8
	readsWait   = 64
	// maxWindow bounds the bytes that are fetched at once for a reader that reads one group after the other. The first
	// group is fetched alone.
	maxWindow = 1 << 20
	// partTime is the time in which a member has to send a part.
	partTime = 10 * time.Second
	// hedgeAfter is the time without a part after which other shards are asked as well.
	hedgeAfter = 150 * time.Millisecond
	// computeWindows is the number of windows for which a shard is computed first, after its holder was late: that
	// takes as many bytes as there are data shards, and asking a holder that hangs takes hedgeAfter.
	computeWindows = 16
	// haveTime is the time in which members have to say which pieces they hold, when too few have proved theirs.
	haveTime = time.Second
	// maxAsked bounds the members that are asked that.
	maxAsked = 64
	// startTime is the time in which the store has to admit the puts of parity.
	startTime = time.Minute
)
