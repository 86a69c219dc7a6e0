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

// TarItems yields the entries of a tar stream in its order, which must be that
// of Items (`allium add` writes it so).
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
				it.Root, it.Kind, it.Executable, it.Body, it.Size = root, manifest.File, h.Mode&0o111 != 0, tarBody{tr}, h.Size
			case tar.TypeDir:
				it.Kind = manifest.Directory
			case tar.TypeSymlink:
				it.Kind, it.Target = manifest.Link, h.Linkname
			default:
				yield(Item{}, status.Errorf(status.BadRequest, "tar: %s has type %q; only files, directories and symbolic links can be added", h.Name, h.Typeflag))
				return
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// paxRoot is the PAX record that names a file's content by its address; such a
// file has no bytes in the tar.
const paxRoot = "ALLIUM.root"

// reference is the address in a tar header; zero where there is none.
func reference(h *tar.Header) (b3.Root, error) {
	addr, ok := h.PAXRecords[paxRoot]
	if !ok {
		return b3.Root{}, nil
	}
	root, err := b3.Parse(addr)
	if err != nil || h.Size != 0 {
		return b3.Root{}, status.Errorf(status.BadRequest, "tar: %s: a file that is named by its address has that address and no bytes: %q, %d bytes", h.Name, addr, h.Size)
	}
	return root, nil
}

// tarBody is one file of a tar stream; a stream that is cut is bad_request.
type tarBody struct{ r io.Reader }

func (b tarBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = tarError(err)
	}
	return n, err
}

// tarError is bad_request, unless what the tar is read from said better: that
// it is larger than it may be, or that its client went away.
func tarError(err error) error {
	if o := status.Of(err); o != status.Internal {
		return status.Errorf(o, "tar: %w", err)
	}
	return status.Errorf(status.BadRequest, "tar: %w", err)
}
