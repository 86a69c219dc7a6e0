// Package mbtiles reads map tiles from MBTiles packs: SQLite databases with a table or a view named
// tiles and one named metadata.
//
// Invariants:
//
//   - Every byte of a pack is read through a [tile.Source]. SQLite opens no file of this machine, so
//     nothing appears beside a pack, and a pack of the store is proved as it is read.
//   - A pack is data of a stranger. Its views run with an authorizer that allows reads of its tables and
//     a few functions, and every query has an end: a time, a number of bytes that it reads, and the
//     memory of SQLite.
//   - All archives share the connections of one [Pool], so a mounted pack that nobody reads costs
//     nothing but its [tile.Info].
//
// One tile, walked through: Find waits for one of the connections of the archive and asks for the
// length of the tile's row. Its place is the number of the tile in the pyramid. Read asks for the bytes
// of the same row. Both flip y, because rows of MBTiles count from the south.
package mbtiles
