package node

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// DiskItems yields files and directories of the local file system, each under
// its own base name. An argument itself may be a symbolic link; links below it
// are added as links. Sockets, pipes and devices are refused by name.
func DiskItems(names ...string) Items {
	return func(yield func(Item, error) bool) {
		for _, name := range names {
			if name == "" { // filepath.Abs takes it for the working directory
				yield(Item{}, status.Errorf(status.BadRequest, "the empty path names nothing; write . for the working directory"))
				return
			}
			abs, err := filepath.Abs(name) // "." has no base name of its own
			if err != nil {
				yield(Item{}, err)
				return
			}
			real, err := filepath.EvalSymlinks(abs)
			if err != nil {
				yield(Item{}, diskError(err))
				return
			}
			info, err := os.Lstat(real)
			if err != nil {
				yield(Item{}, diskError(err))
				return
			}
			base := filepath.Base(abs)
			if base == string(filepath.Separator) {
				base = "root"
			}
			if !walkDisk(real, base, info, yield) {
				return
			}
		}
	}
}

// walkDisk yields one item and, below a directory, its entries in bytewise
// order. It returns false when the consumer wants no more.
func walkDisk(name, rel string, info fs.FileInfo, yield func(Item, error) bool) bool {
	it := Item{Path: rel}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		it.Kind, it.Executable, it.stat = manifest.File, mode&0o111 != 0, info
		it.Open = func() (io.ReadCloser, error) {
			// the file may have been replaced by a link since it was listed
			f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
			return f, diskError(err)
		}
	case mode.IsDir():
		it.Kind = manifest.Directory
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		if err != nil {
			return yield(Item{}, diskError(err))
		}
		it.Kind, it.Target = manifest.Link, target
	default:
		return yield(Item{}, status.Errorf(status.BadRequest, "%s is a %s; only files, directories and symbolic links can be added", name, modeName(mode)))
	}
	if !yield(it, nil) {
		return false
	}
	if it.Kind != manifest.Directory {
		return true
	}
	// The names of one directory are all in RAM: its manifest wants them in order.
	entries, err := os.ReadDir(name)
	if err != nil {
		return yield(Item{}, diskError(err))
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return yield(Item{}, diskError(err))
		}
		if !walkDisk(filepath.Join(name, e.Name()), path.Join(rel, e.Name()), info, yield) {
			return false
		}
	}
	return true
}

// diskError gives file system errors the user can act on an outcome.
func diskError(err error) error {
	switch {
	case err == nil:
		return nil
	case os.IsNotExist(err):
		return status.Errorf(status.NotFound, "%w", err)
	case os.IsPermission(err):
		return status.Errorf(status.Forbidden, "%w", err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return status.Errorf(status.BadRequest, "%w; add a part of the tree from within it", err)
	}
	return err
}

func modeName(m fs.FileMode) string {
	switch {
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	default:
		return "device"
	}
}

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
