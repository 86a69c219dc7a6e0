package pmtiles

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// Sample looks at up to 16 tiles from the first to the last and returns how many. It reads at most
// the first 16 KiB of each, and a leaf directory or more for each that are not in the cache. A tile
// that is not of the archive's type and encoding is corrupt. It does not decompress brotli and
// zstd.
func (a *Archive) Sample(ctx context.Context) (int, error) {
	first, final, err := a.ends(ctx)
	if err != nil {
		return 0, err
	}
	n, before := 0, entry{}
	span := final.end() - 1 - first.id
	for k := range uint64(sampleTiles) {
		const last = sampleTiles - 1
		id := first.id + span/last*k + span%last*k/last // span*k/last may overflow
		e, err := a.floor(ctx, id)
		if err != nil {
			return n, err
		}
		if e == before || e.length == 0 {
			continue
		}
		before = e
		if err := a.check(ctx, e); err != nil {
			return n, fmt.Errorf("tile %s: %w", CoordOf(e.id), err)
		}
		n++
	}
	return n, nil
}

// check looks at the beginning of one tile.
func (a *Archive) check(ctx context.Context, e entry) error {
	if e.length > tile.MaxBytes {
		return status.Errorf(status.BodyCap, "it has %d bytes: at most %d are supported", e.length, tile.MaxBytes)
	}
	p := make([]byte, min(e.length, samplePrefix))
	if err := a.src.ReadAt(ctx, p, a.place(e).Offset); err != nil {
		return err
	}
	said := a.info.Encoding
	if said != tile.Brotli && compressionOf(p) != said {
		return status.Errorf(status.Corrupt, "the pack says that its tiles have %s compression, and this one does not",
			cmp.Or(string(said), "no"))
	}
	switch said {
	case tile.Brotli, tile.Zstd:
		return nil
	case tile.Gzip:
		var err error
		if p, err = gunzipTile(p, int(e.length) > len(p)); err != nil {
			return err
		}
	}
	if a.info.Type == tile.MVT && len(p) == 0 {
		return nil // a vector tile without layers
	}
	if found := tile.Detect(p); found != a.info.Type || compressionOf(p) != tile.Identity {
		return status.Errorf(status.Corrupt, "it is no %s", a.info.Type.Ext())
	}
	return nil
}

// gunzipTile returns the first decompressed bytes of a tile, and decompresses all of p to check it. cut
// says that p is not the whole tile.
func gunzipTile(p []byte, cut bool) ([]byte, error) {
	var first bytes.Buffer
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err == nil {
		_, err = io.CopyN(&first, r, magicBytes)
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, r, tile.MaxBytes+1-magicBytes)
	}
	switch {
	case err == nil:
		return nil, status.Errorf(status.DecompressCap, "it has more than %d bytes decompressed", tile.MaxBytes)
	case errors.Is(err, io.EOF), cut && errors.Is(err, io.ErrUnexpectedEOF):
		return first.Bytes(), nil
	}
	return nil, status.Errorf(status.Corrupt, "it does not decompress: %w", err)
}
