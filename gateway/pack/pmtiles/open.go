package pmtiles

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// Open reads the header, the metadata and the directories at both ends of an archive and returns it.
// It reads at most MaxOpen bytes of src. The errors are corrupt for an archive that is damaged,
// unsupported for one that this package does not read, decompress_cap and body_cap for one that exceeds
// a bound, and those of src. The archive does not close src, which must stay open as long as it.
func Open(ctx context.Context, src tile.Source, c *Cache) (*Archive, error) {
	in, err := newOpening(ctx, src)
	if err != nil {
		return nil, fmt.Errorf("read the header of the pack: %w", err)
	}
	a := &Archive{tree: tree{src: in}}
	if a.h, err = parseHeader(in.prefix, src.Size()); err != nil {
		return nil, err
	}
	a.dirs = newDirectories(c, a.load)
	if err := a.describe(ctx); err != nil {
		a.dirs.close()
		return nil, err
	}
	a.src = src
	return a, nil
}

// describe fills in what the archive says of itself.
func (a *Archive) describe(ctx context.Context) error {
	a.info.Format = Format
	if a.h.root.length == 0 {
		return status.Errorf(status.Corrupt, "the pack has no root directory")
	}
	first, last, err := a.ends(ctx)
	if err != nil {
		return err
	}
	a.describeZooms(first, last)
	if err := a.describeCounts(ctx, last.end()-first.id); err != nil {
		return err
	}
	var warnings []string
	a.info.Bounds, a.info.Center, warnings = a.h.area.inDegrees(a.info.MinZoom, a.info.MaxZoom)
	a.info.Warnings = append(a.info.Warnings, warnings...)
	if a.h.root.offset+a.h.root.length > prefixBytes {
		a.warn("The root directory is not in the first %d bytes: other readers may not find it.", prefixBytes)
	}
	if err := a.h.readMetadata(ctx, a.src, &a.info); err != nil {
		return err
	}
	return a.describeTiles(ctx, first)
}

// warn adds a sentence to the warnings.
func (a *Archive) warn(format string, args ...any) {
	a.info.Warnings = append(a.info.Warnings, fmt.Sprintf(format, args...))
}

// describeZooms computes the zooms from the first and the last entry. Writers that take them from the
// first tile of the last run declare a max zoom that is too low.
func (a *Archive) describeZooms(first, last entry) {
	from, to := zoomOf(first.id), zoomOf(last.end()-1)
	a.info.MinZoom, a.info.MaxZoom = from, to
	if from != a.h.minZoom || to != a.h.maxZoom {
		a.warn("The header declares zooms %d to %d, but the directory has tiles from %d to %d: other readers may miss "+
			"tiles.", a.h.minZoom, a.h.maxZoom, from, to)
	}
}

// describeCounts takes the counts of the root directory if there are no leaves, and else those of the
// header unless they are impossible. span is the number of IDs from the first tile to the last.
func (a *Archive) describeCounts(ctx context.Context, span uint64) error {
	root, err := a.directory(ctx, a.root())
	if err != nil {
		return err
	}
	tiles, contents := a.h.counts[0], a.h.counts[2]
	if root.hasLeaves() {
		if tiles > span || contents > span { // 0: unknown
			a.warn("The header declares %d tiles and %d contents, which cannot be right.", tiles, contents)
			tiles, contents = 0, 0
		}
	} else {
		c := a.newCounter()
		for _, e := range root {
			c.add(e)
		}
		counted := c.counts()
		if tiles != 0 && tiles != uint64(counted.Tiles) {
			a.warn("The header declares %d tiles, but the directory has %d.", tiles, counted.Tiles)
		}
		tiles, contents = uint64(counted.Tiles), uint64(counted.Contents)
	}
	a.info.Tiles, a.info.Contents = int64(tiles), int64(contents) // span is below 2^63
	return nil
}

// describeTiles sets the type and the encoding of the tiles: of the header, or of the first tile where
// the header does not know.
func (a *Archive) describeTiles(ctx context.Context, first entry) error {
	encodings := [...]tile.Encoding{
		compressionNone: tile.Identity, compressionGzip: tile.Gzip, compressionBrotli: tile.Brotli,
		compressionZstd: tile.Zstd,
	}
	a.info.Type, a.info.Encoding = a.h.tileType, encodings[a.h.tileCompression]
	if a.h.tileType != tile.Unknown && a.h.tileCompression != compressionUnknown {
		return nil
	}
	p := make([]byte, min(first.length, samplePrefix))
	if err := a.src.ReadAt(ctx, p, a.place(first).Offset); err != nil {
		return fmt.Errorf("read the first tile of the pack: %w", err)
	}
	if a.h.tileCompression == compressionUnknown {
		a.info.Encoding = compressionOf(p)
	}
	if a.h.tileType == tile.Unknown {
		if a.info.Encoding == tile.Gzip {
			p = gunzipFirst(p)
		}
		if a.info.Type = tile.Detect(p); a.info.Type == tile.Unknown {
			return status.Errorf(status.Unsupported,
				"the pack does not say of what type its tiles are, and its first tile does not show it: write it "+
					"again with a format: mvt, png, jpg, webp or avif")
		}
		a.warn("The header does not say of what type the tiles are: they look like %s.", a.info.Type.Ext())
	}
	return nil
}

// compressionOf returns the encoding of a tile by its first bytes.
func compressionOf(p []byte) tile.Encoding {
	switch {
	case bytes.HasPrefix(p, []byte{0x1f, 0x8b}):
		return tile.Gzip
	case bytes.HasPrefix(p, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return tile.Zstd
	}
	return tile.Identity
}

// gunzipFirst returns the first decompressed bytes of a tile that begins with p, or none if p is damaged.
func gunzipFirst(p []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil
	}
	first := make([]byte, magicBytes)
	n, _ := io.ReadFull(r, first) // a short tile
	return first[:n]
}

// opening is the source of an archive that is being opened. It reads the beginning of the file once
// and refuses to read more than MaxOpen bytes. One goroutine at a time uses it.
type opening struct {
	tile.Source
	prefix []byte
	left   int64
}

func newOpening(ctx context.Context, src tile.Source) (*opening, error) {
	in := &opening{src, make([]byte, min(src.Size(), prefixBytes)), MaxOpen}
	if len(in.prefix) == 0 {
		return in, nil
	}
	return in, in.read(ctx, in.prefix, 0)
}

// ReadAt copies from the beginning or reads the source.
func (in *opening) ReadAt(ctx context.Context, p []byte, off int64) error {
	if off+int64(len(p)) <= int64(len(in.prefix)) {
		copy(p, in.prefix[off:])
		return nil
	}
	return in.read(ctx, p, off)
}

func (in *opening) read(ctx context.Context, p []byte, off int64) error {
	if in.left -= int64(len(p)); in.left < 0 {
		return status.Errorf(status.BodyCap, "its metadata and first directories have more than %d bytes: compress "+
			"them with gzip", MaxOpen)
	}
	return in.Source.ReadAt(ctx, p, off)
}
