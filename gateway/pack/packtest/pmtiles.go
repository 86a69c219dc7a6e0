package packtest

import (
	"cmp"
	"encoding/binary"
	"slices"

	"allium/gateway/pack/tile"
)

// The compressions of a PMTiles header.
const (
	CompressionUnknown = iota
	CompressionNone
	CompressionGzip
	CompressionBrotli
	CompressionZstd
)

// Section is a part of an archive.
type Section struct{ Offset, Length uint64 }

// Area is the part of a header that says where the tiles lie, in 1e-7 degrees.
type Area struct {
	West, South, East, North int32
	CenterZoom               uint8
	CenterLon, CenterLat     int32
}

// Header is the header of a PMTiles archive, with the fields in their order.
type Header struct {
	Magic                         [8]byte // with the version
	Root, Metadata, Leaves, Tiles Section
	Counts                        [3]uint64 // addressed tiles, entries, contents
	Clustered                     bool
	Internal, Compression, Type   uint8
	Zooms                         [2]uint8
	Area                          Area
}

// headerBytes is the length of the header.
const headerBytes = 127

// Entry is an entry of a directory. A Run of 0 is a leaf directory.
type Entry struct {
	ID, Run, Length, Offset uint64
}

// Directory returns the bytes of a directory, not compressed.
func Directory(entries []Entry) []byte {
	p := binary.AppendUvarint(nil, uint64(len(entries)))
	last := uint64(0)
	for _, e := range entries {
		p, last = binary.AppendUvarint(p, e.ID-last), e.ID
	}
	for _, e := range entries {
		p = binary.AppendUvarint(p, e.Run)
	}
	for _, e := range entries {
		p = binary.AppendUvarint(p, e.Length)
	}
	for i, e := range entries {
		if i > 0 && e.Offset == entries[i-1].Offset+entries[i-1].Length {
			p = append(p, 0)
		} else {
			p = binary.AppendUvarint(p, e.Offset+1)
		}
	}
	return p
}

// Options say how an archive is written. The zero Options write a clustered one, deduplicated, with
// runs, without compression and without leaves.
type Options struct {
	Type        tile.Type
	Encoding    tile.Encoding
	Gzip        bool   // compress directories and metadata
	Leaf        int    // entries of a leaf directory; 0: all are in the root
	Levels      int    // of leaf directories; 0 is 1
	Unclustered bool   // the tiles are in the reverse order
	Duplicates  bool   // store equal tiles again, and write no runs
	Metadata    string // "": {}
	Change      func(*Header)
}

// PMTiles returns an archive with tiles. Change, which may be nil, gets the finished header.
func PMTiles(tiles Tiles, o Options) []byte {
	h := Header{Magic: [8]byte([]byte("PMTiles\x03")), Clustered: !o.Unclustered, Internal: CompressionNone,
		Compression: compressions[o.Encoding], Type: uint8(o.Type)}
	compress := func(p []byte) []byte { return p }
	if o.Gzip {
		h.Internal, compress = CompressionGzip, Gzip
	}
	entries, data, contents := o.layOut(tiles)
	h.Counts = [3]uint64{uint64(len(tiles)), uint64(len(entries)), contents}
	h.Zooms[0] = tile.MaxZoom
	for c := range tiles {
		h.Zooms = [2]uint8{min(h.Zooms[0], c.Z), max(h.Zooms[1], c.Z)}
	}
	h.Area = Area{-1800000000, -850000000, 1800000000, 850000000, h.Zooms[0], 0, 0}
	var leaves []byte
	if o.Leaf > 0 {
		for range max(o.Levels, 1) {
			var parents []Entry
			for leaf := range slices.Chunk(entries, o.Leaf) {
				p := compress(Directory(leaf))
				parents = append(parents, Entry{leaf[0].ID, 0, uint64(len(p)), uint64(len(leaves))})
				leaves = append(leaves, p...)
			}
			entries = parents
		}
	}
	return Join(h, compress(Directory(entries)), compress([]byte(cmp.Or(o.Metadata, "{}"))), leaves, data, o.Change)
}

var compressions = map[tile.Encoding]uint8{
	tile.Identity: CompressionNone, tile.Gzip: CompressionGzip, tile.Brotli: CompressionBrotli,
	tile.Zstd: CompressionZstd,
}

// Join returns the archive of its parts. It writes their offsets and lengths into h. Change may be nil.
func Join(h Header, root, metadata, leaves, tiles []byte, change func(*Header)) []byte {
	end := uint64(headerBytes)
	parts := [][]byte{root, metadata, leaves, tiles}
	for i, s := range []*Section{&h.Root, &h.Metadata, &h.Leaves, &h.Tiles} {
		*s = Section{end, uint64(len(parts[i]))}
		end += s.Length
	}
	if change != nil {
		change(&h)
	}
	p, err := binary.Append(nil, binary.LittleEndian, h)
	if err != nil {
		panic(err) // all fields have a fixed size
	}
	return slices.Concat(p, root, metadata, leaves, tiles)
}

// layOut returns the entries and the section of tiles, and how many contents it has.
func (o Options) layOut(tiles Tiles) (entries []Entry, data []byte, contents uint64) {
	order := sorted(tiles)
	at := map[string]uint64{}
	store := func(p []byte) uint64 {
		offset, ok := at[string(p)]
		if !ok || o.Duplicates {
			offset = uint64(len(data))
			at[string(p)] = offset
			data = append(data, p...)
			contents++
		}
		return offset
	}
	offsets := make([]uint64, len(order))
	for i := range order {
		if o.Unclustered {
			i = len(order) - 1 - i
		}
		offsets[i] = store(tiles[order[i]])
	}
	for i, c := range order {
		e := Entry{id(c), 1, uint64(len(tiles[c])), offsets[i]}
		if n := len(entries); n > 0 && !o.Duplicates && entries[n-1].Offset == e.Offset &&
			entries[n-1].Length == e.Length && entries[n-1].ID+entries[n-1].Run == e.ID {
			entries[n-1].Run++
			continue
		}
		entries = append(entries, e)
	}
	return entries, data, contents
}

// sorted returns the coordinates in the order of their IDs.
func sorted(tiles Tiles) []tile.Coord {
	type numbered struct {
		c  tile.Coord
		id uint64
	}
	all := make([]numbered, 0, len(tiles))
	for c := range tiles {
		all = append(all, numbered{c, id(c)})
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.id, b.id) })
	order := make([]tile.Coord, len(all))
	for i, n := range all {
		order[i] = n.c
	}
	return order
}

// id returns the PMTiles ID of a tile: the textbook's walk along the Hilbert curve.
func id(c tile.Coord) uint64 {
	d := uint64(0)
	for z := range c.Z {
		d += 1 << (2 * z)
	}
	x, y := uint64(c.X), uint64(c.Y)
	side := uint64(1) << c.Z
	for s := side / 2; s > 0; s /= 2 {
		rx, ry := min(x&s, 1), min(y&s, 1)
		d += s * s * (3*rx ^ ry)
		if ry == 0 {
			if rx == 1 {
				x, y = side-1-x, side-1-y
			}
			x, y = y, x
		}
	}
	return d
}
