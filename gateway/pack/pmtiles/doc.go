// Package pmtiles reads PMTiles archives of version 3 and nothing else. It trusts no archive: reads,
// memory and steps are bounded before anything is read or allocated for a number that the file gives.
//
// An archive is one file: a header of 127 bytes, a root directory, JSON metadata, leaf directories
// and the tiles. A directory is a list of entries, sorted by tile ID. An entry says where one tile, a
// run of equal tiles at consecutive IDs, or a leaf directory lies.
//
// # Invariants
//
//   - The IDs of a decoded directory ascend, its runs do not overlap, and all its places lie in
//     their section of the file.
//   - A leaf directory is used only for the IDs between its entry and the next one. So a directory
//     that refers to itself ends in an error at a depth of [MaxDepth].
//   - Decoded directories belong to a [Cache], which all archives share. An archive itself keeps what
//     it says of itself, and no directory.
//
// # One tile, walked through
//
// Find computes the ID of z/x/y, looks it up in the root directory and follows the entry to a leaf.
// Both directories usually come from the cache. The entry of the leaf gives an offset and a length in
// the section of tiles. Read then reads these bytes, with one call of the source.
package pmtiles
