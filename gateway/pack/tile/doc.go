// Package tile provides the words that packs of map tiles share: where a tile lies, what its bytes
// are, what a pack says of itself, and where the bytes of a pack come from.
//
// A pack is one file that holds a pyramid of tiles. Packages pmtiles and mbtiles each read one
// format and return an [Archive]. Package pack mounts archives and serves their tiles.
package tile
