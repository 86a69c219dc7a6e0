package mbtiles

import (
	"bytes"
	"errors"
	"fmt"
	"image/jpeg"
	"image/png"
	"io"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// checkTile returns corrupt if the stored bytes of a tile are not of a type, and decompress_cap if they
// are too many when they are decompressed.
func checkTile(t tile.Type, stored []byte) error {
	var err error
	switch t {
	case tile.MVT:
		if encodingOf(stored) == tile.Gzip {
			if stored, err = gunzip(stored); err != nil {
				return err
			}
		}
		err = checkVector(stored)
	case tile.PNG:
		_, err = png.DecodeConfig(bytes.NewReader(stored))
	case tile.JPEG:
		_, err = jpeg.DecodeConfig(bytes.NewReader(stored))
	default:
		if got := tile.Detect(stored); got != t {
			err = fmt.Errorf("it begins like %q", got.Ext())
		}
	}
	if err != nil {
		return status.Errorf(status.Corrupt, "it is no %s: %w", t.Ext(), err)
	}
	return nil
}

// gunzip returns the content of a gzip stream of at most tile.MaxBytes.
func gunzip(stored []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, status.Errorf(status.Corrupt, "it does not decompress: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, tile.MaxBytes+1))
	switch {
	case err != nil:
		return nil, status.Errorf(status.Corrupt, "it does not decompress: %w", err)
	case len(plain) > tile.MaxBytes:
		return nil, status.Errorf(status.DecompressCap, "it has more than %d bytes decompressed", tile.MaxBytes)
	}
	return plain, nil
}

// checkVector proves that a message is a list of layers with names.
func checkVector(message []byte) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if field != 3 || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		layer, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if !hasName(layer) {
			return errors.New("a layer has no name")
		}
		message = message[n:]
	}
	return nil
}

// hasName reports whether a layer is well-formed and has a name.
func hasName(layer []byte) bool {
	named := false
	for len(layer) > 0 {
		field, kind, n := protowire.ConsumeField(layer)
		if n < 0 {
			return false
		}
		named = named || field == 1 && kind == protowire.BytesType
		layer = layer[n:]
	}
	return named
}
