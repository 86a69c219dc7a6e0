package folder

import (
	"archive/tar"
	"bytes"
	"unicode/utf8"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

const (
	tarBlock = 512
	tarEnd   = 2 * tarBlock // bytes of zeros
)

// writeTar writes the tree as a tar: a ustar header for each entry, in POSIX (pax) form where a name, a link or a size
// does not fit, with mode 0755 or 0644, and the time 0. The directory itself has no entry.
func writeTar(t *tree, w *window) error {
	var head bytes.Buffer
	err := t.walk(func(path string, e *manifest.Entry) error {
		if w.out == nil && plainTar(path, e) {
			w.at += tarBlock
		} else if err := tarHead(&head, path, e); err != nil {
			return err
		} else if err := w.text(head.Bytes()); err != nil {
			return err
		}
		if e.Kind == manifest.File {
			if _, err := w.file(t, path, e, false); err != nil {
				return err
			}
			if err := w.text(make([]byte, -e.Size&(tarBlock-1))); err != nil {
				return err
			}
		}
		return w.more()
	})
	if err != nil {
		return err
	}
	return w.text(make([]byte, tarEnd))
}

// plainTar reports whether the header of an entry is one block, as that of most files is. It says no where it does not
// know.
func plainTar(path string, e *manifest.Entry) bool {
	const longest, largest = 98, 1 << 33 // a directory's name has a slash more
	if e.Kind == manifest.Link || len(path) > longest || e.Size >= largest {
		return false
	}
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// tarHead writes the header of an entry.
func tarHead(to *bytes.Buffer, path string, e *manifest.Entry) error {
	h := &tar.Header{Name: path, Mode: 0o644, Format: tar.FormatPAX}
	switch e.Kind {
	case manifest.Directory:
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, path+"/", 0o755
	case manifest.Link:
		if err := checkLink(path, e); err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Target, 0o777
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
		if e.Executable {
			h.Mode = 0o755
		}
	}
	to.Reset()
	if err := tar.NewWriter(to).WriteHeader(h); err != nil {
		return cannotHold(path, "a tar", err.Error())
	}
	return nil
}

// checkLink refuses a link that leads out of the directory, as a program that unpacks the archive might follow it.
func checkLink(path string, e *manifest.Entry) error {
	if why := manifest.LinkProblem(path, e.Target); why != "" {
		return cannotHold(path, "an archive", why)
	}
	return nil
}

// cannotHold returns the error of an entry that an archive cannot have.
func cannotHold(path, archive, why string) error {
	return status.Errorf(status.Unsupported, "cannot put %s into %s: %s. "+
		"Get the directory with `allium get`, or its files one by one", quoted(path), archive, why)
}
