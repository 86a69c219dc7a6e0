package pmtiles

// Bounds of an archive. One that exceeds them is refused.
const (
	// MaxDepth is the most leaf directories on the way from the root directory to a tile, as in the
	// readers of the format's authors.
	MaxDepth = 3
	// MaxDirectory is the most stored bytes of a directory. Writers keep the root below 16 KiB, and a
	// leaf of a planet at 150 KiB.
	MaxDirectory = 512 << 10
	// MaxEntries is the most entries of a directory. They take 24 bytes each in the cache.
	MaxEntries = 1 << 17
	// MaxOpen is the most bytes that Open reads.
	MaxOpen = 1 << 20
)

const (
	prefixBytes = 16 << 10 // read at once by Open; the format keeps header and root directory in it
	readPiece   = 32 << 10 // of the metadata, per read
	maxMembers  = 1 << 10  // of the JSON object of the metadata; writers have some 20
	maxText     = 8 << 10  // most bytes of a text of the metadata; an archive keeps it while it is open

	// decoders bounds the directories that a cache decodes at once: it is the processor's work.
	decoders = 4

	sampleTiles  = 16       // most tiles that Sample looks at
	samplePrefix = 16 << 10 // most bytes that Sample reads of one
	magicBytes   = 16       // of a tile, by which its type is detected

	// distinctOffsets bounds the memory in which Count tells tiles apart in an unclustered archive.
	distinctOffsets = 1 << 16
)
