package shards

import "time"

const (
	// maxStreams bounds the encodings and rebuilds at one time. Each has a window of each shard in RAM.
	maxStreams = 2
	// window is how many bytes of each shard an encoding or a rebuild has in RAM, in whole groups.
	window = 128 << 10
	// readPermits bounds the windows that are fetched for readers at one time, and readsWait those that wait; further
	// readers are told busy.
	readPermits = 8
	readsWait   = 64
	// maxWindow bounds the bytes that are fetched at once for a reader that reads one group after the other. The first
	// group is fetched alone.
	maxWindow = 1 << 20
	// partTime is how long a member has to send a part.
	partTime = 10 * time.Second
	// hedgeAfter is how long nobody gives a part until other shards are asked as well.
	hedgeAfter = 150 * time.Millisecond
	// computeWindows is for how many windows a shard is computed first, after its holder was late: that takes as many
	// bytes as there are data shards, and asking a holder that hangs takes hedgeAfter.
	computeWindows = 16
	// haveTime is how long members have to say which pieces they hold, when too few have proved theirs.
	haveTime = time.Second
	// maxAsked bounds the members that are asked that.
	maxAsked = 64
	// startTime is how long the puts of parity have to be admitted by the store.
	startTime = time.Minute
)
