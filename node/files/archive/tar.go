package archive

import (
	"archive/tar"
	"errors"
	"io"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

const (
	tarBlock   = 512     // bytes; headers and the end marker are made of blocks
	tarTrailer = 1 << 20 // most bytes that are read behind the end marker; programs fill up to 10 KiB there
)

// Tar reads a tar.
type Tar struct {
	in  *counted
	tr  *tar.Reader
	end error // the error that ended the tar; nil: it goes on
}

// NewTar returns a reader of the tar that r gives.
func NewTar(r io.Reader) *Tar {
	in := &counted{r: r}
	return &Tar{in: in, tr: tar.NewReader(in)}
}

// Consumed implements Reader.
func (t *Tar) Consumed() int64 { return t.in.n }

// Next implements Reader.
func (t *Tar) Next() (Entry, error) {
	for t.end == nil {
		if _, err := io.Copy(io.Discard, t.tr); err != nil { // the rest of the entry before
			t.end = TarError(err)
			break
		}
		begun := (t.in.n + tarBlock - 1) / tarBlock * tarBlock
		h, err := t.tr.Next()
		switch {
		case err == io.EOF:
			t.end = t.finish(t.in.n - begun)
		case err != nil:
			t.end = TarError(err)
		case h.Typeflag == tar.TypeXGlobalHeader: // git archive writes it
		default:
			return t.entry(h)
		}
	}
	return Entry{}, t.end
}

// finish returns io.EOF if n bytes behind the last entry have room for the end marker. Without it the tar
// may have been cut between two entries.
func (t *Tar) finish(n int64) error {
	if n < tarBlock {
		return status.Errorf(status.BadRequest,
			"the tar has no end: it was cut short, or the program that made it did not finish it. Make it again")
	}
	if _, err := io.CopyN(io.Discard, t.in, tarTrailer); err != nil && !errors.Is(err, io.EOF) {
		return TarError(err)
	}
	return io.EOF
}

func (t *Tar) entry(h *tar.Header) (Entry, error) {
	e := Entry{Name: h.Name}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		root, err := Reference(h)
		if err != nil {
			return Entry{}, err
		}
		e.Kind, e.Executable, e.Root = manifest.File, h.Mode&0o111 != 0, root
		e.Body, e.Size = TarBody(t.tr), h.Size
	case tar.TypeDir:
		e.Kind = manifest.Directory
	case tar.TypeSymlink:
		e.Kind, e.Target = manifest.Link, h.Linkname
	case tar.TypeLink:
		e.Problem = "it is a hard link; make the tar with --hard-dereference"
	default:
		e.Problem = "it is a device or pipe; only files, directories and symbolic links can be added"
	}
	return e, nil
}

// RootRecord is the PAX record with the address of a file. A file with this record has no bytes in the tar.
const RootRecord = "ALLIUM.root"

// Reference returns the address in a tar header, or zero when it has none.
func Reference(h *tar.Header) (b3.Root, error) {
	addr, ok := h.PAXRecords[RootRecord]
	if !ok {
		return b3.Root{}, nil
	}
	root, err := b3.Parse(addr)
	if err != nil || h.Size != 0 {
		return b3.Root{}, status.Errorf(status.BadRequest,
			"tar: %s: a file sent by its address has a valid address and no bytes; it has %q and %d bytes",
			h.Name, addr, h.Size)
	}
	return root, nil
}

// TarBody returns a reader of the current file of a tar. A tar that ends early is bad_request.
func TarBody(r *tar.Reader) io.Reader { return status.Reader(r, TarError) }

// TarError returns err as bad_request. An outcome that err already has stays: the reader below may know
// that the tar is too large, or that the client went away.
func TarError(err error) error {
	if o := status.Of(err); o != status.Internal {
		return status.Errorf(o, "tar: %w", err)
	}
	return status.Errorf(status.BadRequest, "tar: %w", err)
}
