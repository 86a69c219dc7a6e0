package packtest

import "allium/gateway/pack/tile"

// spread is more than a chunk group of 64 KiB: what lies so far apart shares none.
const spread = 68 << 10

// The tiles of a Deep archive.
const (
	deepTiles = 256
	DeepTile  = 8 + 8<<10 // bytes of one
)

// Deep returns an archive of 256 tiles of 8 KiB, the PNGs with the first IDs, below three levels of leaf directories.
// Each tile and each directory lies in a separate chunk group. A tile takes four reads if its directories are not
// cached.
func Deep() []byte {
	image := make([]byte, DeepTile)
	copy(image, Content(tile.PNG, ""))
	var tiles, leaves []byte
	place := func(section *[]byte, p []byte) (offset uint64) {
		offset = uint64(len(*section))
		*section = append(append(*section, p...), make([]byte, spread-len(p))...)
		return offset
	}
	var entries []Entry
	for i := range uint64(deepTiles) {
		entries = append(entries, Entry{ID: i, Run: 1, Length: uint64(len(image)), Offset: place(&tiles, image)})
	}
	for range 3 {
		var parents []Entry
		for i := 0; i < len(entries); i += 2 {
			p := Directory(entries[i : i+2])
			parents = append(parents, Entry{ID: entries[i].ID, Length: uint64(len(p)), Offset: place(&leaves, p)})
		}
		entries = parents
	}
	h := Header{Magic: [8]byte([]byte("PMTiles\x03")), Clustered: true, Internal: CompressionNone,
		Compression: CompressionNone, Type: uint8(tile.PNG), Zooms: [2]uint8{0, 4}}
	return Join(h, Directory(entries), []byte("{}"), leaves, tiles, nil)
}

// DeepCold returns 16 tiles of a Deep archive below 16 directories of the highest level. The 16 tiles that a mount
// looks at lie below the others.
func DeepCold() (ids []uint64) {
	const below = 8 // tiles below a directory of the highest level
	for k := range uint64(16) {
		ids = append(ids, below*2*k+below*((15-k)/8))
	}
	return ids
}
