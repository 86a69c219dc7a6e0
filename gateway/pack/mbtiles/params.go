package mbtiles

import (
	"time"

	"allium/gateway/pack/tile"
)

// Bounds of the connections to SQLite.
const (
	maxConns         = 16  // connections that are open, over all archives
	connsOfArchive   = 4   // queries of one archive that run at once, so that a slow view leaves places to others
	waitingOfArchive = 128 // queries of one archive that wait for that
	waiting          = 512 // queries of all archives that wait for a connection

	// heapBytes bounds the memory of SQLite in the process. It is enough for a tile of the largest size in each of
	// maxConns connections.
	heapBytes = maxConns*tile.MaxBytes + 32<<20
	cacheKiB  = 256 // pages that a connection caches
	// progressOps is after how many instructions of SQLite's machine a query looks whether it has to end: some 50 µs.
	progressOps = 2000
	// maxSteps bounds a query that finds something: some 10 ms. With an index it takes some 100 instructions, and
	// without one some 10 for each tile of the pack.
	maxSteps = 300_000
	// countSteps bounds the counting of tiles: some 6 for each.
	countSteps = 40_000_000
)

// Bounds of what a pack may hold.
const (
	maxLength    = tile.MaxBytes + 4096 // bytes of a value, so that a row with a tile of MaxBytes still fits
	maxObjects   = 256                  // tables, views, indexes and triggers
	maxView      = 4 << 10              // bytes of the statement of a view that is read
	maxSelects   = 2                    // SELECTs in it
	maxSQL       = 64 << 10             // bytes of one statement of the schema
	maxColumns   = 128
	maxExprDepth = 64
	maxCompound  = 16      // SELECTs joined by UNION
	maxOps       = 5000    // instructions of a compiled query
	maxReadings  = 2000    // tables, columns and functions that a query names, with all of its views
	maxText      = 4 << 10 // bytes of a value of metadata, except json
	maxLayers    = 2048    // vector layers
	maxWarnings  = 16
)

// budget bounds one query.
type budget struct {
	time   time.Duration
	bytes  int64  // of the pack that it reads
	steps  int64  // instructions of SQLite's machine
	remedy string // what to do about a pack that exceeds it
}

const (
	addIndex = "Write the pack again with an index on zoom_level, tile_column and tile_row of its tables"
	lessText = "Write the pack again with tiles and metadata alone"
)

var (
	// mountTime bounds all queries of Open together.
	mountTime = 5 * time.Second

	schemaBudget   = budget{mountTime, 512 << 10, maxSteps, lessText}
	metadataBudget = budget{mountTime, tile.MaxMetadata + 256<<10, maxSteps, lessText}
	// lookBudget is for zooms and samples, which take a few pages with an index.
	lookBudget = budget{mountTime, 32 << 20, maxSteps, addIndex}
	// tileBudget is for one tile. A view that joins two tables through indexes reads some 20 pages beside the tile.
	tileBudget = budget{2 * time.Second, tile.MaxBytes + 4<<20, maxSteps, addIndex}
	// countBudget is for the number of tiles: a pack that takes longer is not counted.
	countBudget = budget{time.Second, 256 << 20, countSteps, addIndex}
)
