// Package pack mounts packs of map tiles and serves their tiles over HTTP (SPEC §9). A pack is one
// file in the format PMTiles or MBTiles: a file below edge.dir, or an object that an address or a name
// stands for, whose every byte is proved before it is used.
//
// Invariants:
//
//   - A pack is verified before it is mounted: its structure, its size, and a sample of its tiles.
//   - A pack whose file or name has changed is verified again. The old state is served until the new one is verified.
//     The last reader of the old state then closes it.
//   - Nothing is read from a file that was changed in place: its directory and its tiles may not fit.
//   - The ETag of a tile is the address of its stored bytes, whichever pack they come from.
//
// One request, walked through: GET /edge/packs/city/12/2200/1343.mvt. The handler finds the mount "city" and takes its
// state, which keeps it open. A tile that was asked for before may be in RAM. If it is not, [tile.Archive.Find] reads
// the directories, most of them from the cache, and returns where the tile lies. Read copies its bytes from the file,
// or from the object, group by group, and from peers where this node does not have them. The handler hashes the bytes
// for the ETag, evaluates the conditions, decompresses the tile for a client that does not accept gzip, and sends it.
package pack
