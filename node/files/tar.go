package files

import (
	"archive/tar"
	"io"
	"path"

	"allium/node/files/archive"
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
				yield(Item{}, archive.TarError(err))
				return
			}
			it := Item{Path: path.Clean(h.Name)}
			switch h.Typeflag {
			case tar.TypeReg:
				root, bad := archive.Reference(h)
				if bad != nil {
					yield(Item{}, bad)
					return
				}
				it.Root, it.Kind, it.Executable = root, manifest.File, h.Mode&0o111 != 0
				it.Body, it.Size = archive.TarBody(tr), h.Size
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
