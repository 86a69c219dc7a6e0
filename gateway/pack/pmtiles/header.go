package pmtiles

import (
	"encoding/binary"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// headerBytes is the length of the header.
const headerBytes = 127

// The compressions of a header that this package knows by name.
const (
	compressionUnknown = iota
	compressionNone
	compressionGzip
	compressionBrotli
	compressionZstd
)

// section is a part of the file.
type section struct{ offset, length int64 }

// holds reports whether length bytes at an offset from the start of s lie in s.
func (s section) holds(offset, length uint64) bool {
	return length <= uint64(s.length) && offset <= uint64(s.length)-length
}

// header is the verified header of an archive.
type header struct {
	root, metadata, leaves, tiles section

	counts           [3]uint64 // addressed tiles, entries, contents; 0: unknown
	clustered        bool
	gzipped          bool // directories and metadata are gzip, else not compressed
	tileCompression  uint8
	tileType         tile.Type
	minZoom, maxZoom uint8 // as declared
	area             area
}

// area is the part of a header that says where the tiles lie, in 1e-7 degrees.
type area struct {
	west, south, east, north int32
	zoom                     uint8 // of the center
	lon, lat                 int32 // of the center
}

// parseHeader reads the first bytes of a file of size bytes and verifies what does not need more.
func parseHeader(p []byte, size int64) (header, error) {
	var h header
	switch {
	case len(p) >= 8 && string(p[:7]) == "PMTiles" && p[7] != 3:
		return h, status.Errorf(status.Unsupported, "the pack is PMTiles version %d, and only version 3 is supported: "+
			"convert it with `pmtiles convert`", p[7])
	case len(p) >= 3 && string(p[:3]) == "PM\x02":
		return h, status.Errorf(status.Unsupported,
			"the pack is PMTiles version 2, and only version 3 is supported: convert it with `pmtiles convert`")
	case len(p) < headerBytes || string(p[:7]) != "PMTiles":
		return h, status.Errorf(status.Corrupt, "this is no PMTiles archive: it does not begin with the header of one")
	}
	for i, s := range []struct {
		name string
		to   *section
	}{{"root directory", &h.root}, {"metadata", &h.metadata}, {"leaf directories", &h.leaves}, {"tiles", &h.tiles}} {
		offset := binary.LittleEndian.Uint64(p[8+16*i:])
		length := binary.LittleEndian.Uint64(p[16+16*i:])
		if !(section{0, size}).holds(offset, length) || length > 0 && offset < headerBytes {
			return h, status.Errorf(status.Corrupt, "the pack is cut or damaged: its %s lie at %d with %d bytes, "+
				"in a file of %d bytes", s.name, offset, length, size)
		}
		*s.to = section{int64(offset), int64(length)}
	}
	for i := range h.counts {
		h.counts[i] = binary.LittleEndian.Uint64(p[72+8*i:])
	}
	h.clustered = p[96] == 1
	h.minZoom, h.maxZoom = p[100], p[101]
	at := func(i int) int32 { return int32(binary.LittleEndian.Uint32(p[i:])) }
	h.area = area{at(102), at(106), at(110), at(114), p[118], at(119), at(123)}
	return h, h.parseKinds(p[97], p[98], p[99])
}

// parseKinds takes the bytes that say how the parts of the archive are encoded.
func (h *header) parseKinds(internal, tiles, kind byte) error {
	switch internal {
	case compressionNone:
	case compressionGzip:
		h.gzipped = true
	default:
		return status.Errorf(status.Unsupported, "the directories of the pack have %s compression, and only none and "+
			"gzip are supported: write it again with gzip", compressionName(internal))
	}
	if h.tileCompression = tiles; tiles > compressionZstd {
		return status.Errorf(status.Unsupported, "the tiles of the pack have %s compression", compressionName(tiles))
	}
	types := []tile.Type{tile.Unknown, tile.MVT, tile.PNG, tile.JPEG, tile.WebP, tile.AVIF}
	if int(kind) >= len(types) {
		return status.Errorf(status.Unsupported, "the tiles of the pack have the unknown type %d: mvt, png, jpg, webp "+
			"and avif are supported", kind)
	}
	h.tileType = types[kind]
	return nil
}

// compressionName returns the word for a compression of a header.
func compressionName(c byte) string {
	switch c {
	case compressionNone:
		return "no"
	case compressionGzip:
		return "gzip"
	case compressionBrotli:
		return "brotli"
	case compressionZstd:
		return "zstd"
	}
	return "an unknown"
}

// degrees returns a coordinate of a header in degrees.
func degrees(e7 int32) float64 { return float64(e7) / 1e7 }

// inDegrees returns the bounds and the center, nil for one that is missing, and a warning for one that
// cannot be right. The zoom of the center is moved between minZoom and maxZoom.
func (a area) inDegrees(minZoom, maxZoom uint8) (bounds *[4]float64, center *[3]float64, warnings []string) {
	const half, quarter = 180e7, 90e7 // of the way around the globe
	switch {
	case a.west == 0 && a.south == 0 && a.east == 0 && a.north == 0:
	case a.west < -half || a.east > half || a.south < -quarter || a.north > quarter || a.west > a.east ||
		a.south > a.north:
		warnings = append(warnings, "The header's bounds are not on the map and are ignored.")
	default:
		bounds = &[4]float64{degrees(a.west), degrees(a.south), degrees(a.east), degrees(a.north)}
	}
	switch {
	case a.lon == 0 && a.lat == 0 && a.zoom == 0 && bounds == nil:
	case a.lon < -half || a.lon > half || a.lat < -quarter || a.lat > quarter:
		warnings = append(warnings, "The header's center is not on the map and is ignored.")
	default:
		center = &[3]float64{degrees(a.lon), degrees(a.lat), float64(min(max(a.zoom, minZoom), maxZoom))}
	}
	return bounds, center, warnings
}
