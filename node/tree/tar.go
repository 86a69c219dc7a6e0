package tree

import (
	"archive/tar"
	"errors"
	"io"
	"path"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// TarItems yields the entries of a tar in the order of the tar, which must be the
// order of Items. [WriteTar] writes such a tar.
func TarItems(r io.Reader) Items {
	return func(yield func(Item, error) bool) {
		tr := tar.NewReader(r)
		for {
			h, err := tr.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Item{}, tarError(err))
				return
			}
			it := Item{Path: path.Clean(h.Name)}
			switch h.Typeflag {
			case tar.TypeReg:
				root, bad := reference(h)
				if bad != nil {
					yield(Item{}, bad)
					return
				}
				it.Root, it.Kind, it.Executable = root, manifest.File, h.Mode&0o111 != 0
				it.Body, it.Size = tarBody{tr}, h.Size
			case tar.TypeDir:
				it.Kind = manifest.Directory
			case tar.TypeSymlink:
				it.Kind, it.Target = manifest.Link, h.Linkname
			default:
				yield(Item{}, status.Errorf(status.BadRequest,
					"tar: %s has type %q; only files, directories and symbolic links can be added", h.Name, h.Typeflag))
				return
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// paxRoot is the PAX record with the address of a file. A file with this record
// has no bytes in the tar.
const paxRoot = "ALLIUM.root"

// reference returns the address in a tar header, or zero when it has none.
func reference(h *tar.Header) (b3.Root, error) {
	addr, ok := h.PAXRecords[paxRoot]
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

// tarBody reads one file of a tar. A tar that ends early is bad_request.
type tarBody struct{ r io.Reader }

func (b tarBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = tarError(err)
	}
	return n, err
}

// tarError returns err as bad_request. An outcome that err already has stays: the
// reader below may know that the tar is too large, or that the client went away.
func tarError(err error) error {
	if o := status.Of(err); o != status.Internal {
		return status.Errorf(o, "tar: %w", err)
	}
	return status.Errorf(status.BadRequest, "tar: %w", err)
}
