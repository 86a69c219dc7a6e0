package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"allium/node/tree/archive"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// tarWriter writes items as TarItems reads them.
type tarWriter struct {
	w    *tar.Writer
	buf  []byte
	sent func(record func(b3.Root)) // called for each file whose bytes were written; see sentFiles.add
}

// WriteTar writes the items as a tar for TarItems. A file with a known address is
// written without its bytes. A file whose length changes while it is read ends the
// tar with an error that names the file.
func WriteTar(w io.Writer, items Items) error {
	return writeTar(w, items, func(func(b3.Root)) {})
}

// writeTar is WriteTar, and calls sent after the bytes of each file.
func writeTar(w io.Writer, items Items, sent func(record func(b3.Root))) error {
	t := tarWriter{w: tar.NewWriter(w), buf: make([]byte, 64<<10), sent: sent}
	for it, err := range items {
		if err != nil {
			return err
		}
		if err := t.item(it); err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
	}
	return t.w.Close()
}

func (t *tarWriter) item(it Item) error {
	h := &tar.Header{Name: it.Path, Mode: 0o644, Format: tar.FormatPAX}
	switch it.Kind {
	case manifest.Directory:
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
		return t.w.WriteHeader(h)
	case manifest.Link:
		h.Typeflag, h.Linkname = tar.TypeSymlink, it.Target
		return t.w.WriteHeader(h)
	}
	h.Typeflag = tar.TypeReg
	if it.Executable {
		h.Mode = 0o755
	}
	if !it.Root.IsZero() {
		h.PAXRecords = map[string]string{archive.RootRecord: it.Root.String()}
		return t.w.WriteHeader(h)
	}
	f, err := it.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	s, ok := f.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return status.Errorf(status.Internal, "cannot tell the size before reading")
	}
	info, err := s.Stat()
	if err != nil {
		return err
	}
	h.Size = info.Size()
	if err := t.w.WriteHeader(h); err != nil {
		return err
	}
	return t.body(f, h.Size)
}

// body writes the bytes of a file of that size.
func (t *tarWriter) body(f io.Reader, size int64) error {
	n, err := io.CopyBuffer(plainWriter{t.w}, plainReader{f}, t.buf)
	switch {
	case errors.Is(err, tar.ErrWriteTooLong) || err == nil && n < size:
		return status.Errorf(status.Conflict, "the file changed while it was read; add it again")
	case err != nil:
		return err
	}
	var record func(b3.Root)
	if c, ok := f.(cacheable); ok {
		record = c.recorder()
	}
	t.sent(record)
	return nil
}

// plainReader and plainWriter hide the methods ReadFrom and WriteTo. With them,
// io.CopyBuffer would allocate a new buffer for each file.
type (
	plainReader struct{ io.Reader }
	plainWriter struct{ io.Writer }
)
