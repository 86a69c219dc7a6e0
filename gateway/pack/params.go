package pack

import "time"

// Bounds of a Set.
const (
	// mountTimeout bounds the verification of a pack that is a file or an object of this node.
	mountTimeout = 30 * time.Second
	// fetchTimeout bounds the mount of a pack that peers have: an MBTiles pack is fetched whole.
	fetchTimeout = 6 * time.Hour
	// maxMounting bounds the packs that are verified at once.
	maxMounting = 4
	// firstLook bounds the time for which the start of a node waits for its packs that are files.
	firstLook = 2 * time.Second
	// lookEvery is the time between two looks at the files and the names of the packs.
	lookEvery = 5 * time.Second
	// minRetry and maxRetry bound the pause before a pack that could not be mounted is tried again.
	minRetry = 5 * time.Second
	maxRetry = 5 * time.Minute
	// minFollow is the shortest time for which what a name stands for is believed.
	minFollow = 5 * time.Second
	// maxPlain bounds a tile that is decompressed for a client that does not accept gzip.
	maxPlain = 32 << 20
	// progressEvery is the time between two lines of the log about a pack that is being fetched.
	progressEvery = 10 * time.Second
)
