package pmtiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// readMetadata adds what the JSON metadata says to info. It reads src in pieces and holds one value
// at a time.
func (h *header) readMetadata(ctx context.Context, src tile.Source, info *tile.Info) error {
	if h.metadata.length == 0 {
		info.Warnings = append(info.Warnings, "The pack has no metadata: name, attribution and layers are unknown.")
		return nil
	}
	var in io.Reader = &pieces{ctx: ctx, src: src, left: h.metadata}
	if h.gzipped {
		r, err := gzip.NewReader(in)
		if err != nil {
			return metadataError(err)
		}
		in = r
	}
	in = tile.LimitNesting(&capped{r: in, left: tile.MaxMetadata})
	d := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err != nil {
			return metadataError(err)
		}
		return status.Errorf(status.Corrupt, "the metadata of the pack is damaged: it is no JSON object")
	}
	if err := readMembers(d, info); err != nil {
		return metadataError(err)
	}
	if _, err := d.ReadToken(); err == nil {
		return status.Errorf(status.Corrupt, "the metadata of the pack is damaged: something follows its JSON object")
	} else if !errors.Is(err, io.EOF) {
		return metadataError(err)
	}
	return nil
}

// metadataError returns err, which has an outcome if it came from the source or a bound. It does not
// repeat the metadata, which may be long.
func metadataError(err error) error {
	if e, ok := errors.AsType[*status.Error](err); ok {
		err = e // without what the decoder says of it
	}
	if status.HasOutcome(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("read the metadata of the pack: %w", err)
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return status.Errorf(status.Corrupt, "the metadata of the pack is damaged: no JSON at byte %d", e.ByteOffset)
	}
	return status.Errorf(status.Corrupt, "the metadata of the pack is damaged: %w", err)
}

// readMembers reads one object, whose kind was peeked. If two members have one name, the last
// counts.
func readMembers(d *jsontext.Decoder, info *tile.Info) error {
	texts := map[string]*string{
		"name": &info.Name, "description": &info.Description, "attribution": &info.Attribution,
		"version": &info.Version,
	}
	ignored := map[string]bool{}
	ignore := func(name, why string) {
		if !ignored[name] {
			info.Warnings = append(info.Warnings, "The metadata's "+name+" "+why+" and is ignored.")
		}
		ignored[name] = true
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for n := 0; d.PeekKind() != '}'; n++ {
		if n == maxMembers {
			return status.Errorf(status.BodyCap, "it has more than %d members", maxMembers)
		}
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		kind := d.PeekKind()
		text := texts[name]
		switch {
		case text != nil && (kind == '"' || kind == '0' && name == "version"):
			if t, err = d.ReadToken(); err != nil {
				break
			}
			if *text = t.String(); len(*text) > maxText {
				*text = ""
				ignore(name, "is too long")
			}
		case name == "vector_layers" && kind == '[':
			err = readLayers(d, info)
		default:
			if (text != nil || name == "vector_layers") && kind != 'n' {
				ignore(name, "has the wrong type")
			}
			err = d.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// readLayers reads the list of vector layers and keeps it without spaces.
func readLayers(d *jsontext.Decoder, info *tile.Info) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if err := v.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return err
	}
	info.VectorLayers = bytes.ToValidUTF8(v, []byte("\uFFFD")) // a copy
	return nil
}

// pieces reads a section of a source.
type pieces struct {
	ctx  context.Context
	src  tile.Source
	left section
}

// Read reads at most readPiece bytes.
func (r *pieces) Read(p []byte) (int, error) {
	n := min(int64(len(p)), r.left.length, readPiece)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	if err := r.src.ReadAt(r.ctx, p[:n], r.left.offset); err != nil {
		return 0, err
	}
	r.left.offset += n
	r.left.length -= n
	return int(n), nil
}

// capped reads at most left bytes. It returns decompress_cap instead of more.
type capped struct {
	r    io.Reader
	left int64
}

// Read reads from the reader within.
func (r *capped) Read(p []byte) (int, error) {
	if r.left == 0 {
		var one [1]byte
		if n, err := io.ReadFull(r.r, one[:]); n == 0 {
			return 0, err
		}
		return 0, status.Errorf(status.DecompressCap, "it has more than %d bytes", int64(tile.MaxMetadata))
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}
