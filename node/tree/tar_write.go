package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/zeebo/blake3"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// tarWriter writes items as TarItems reads them.
type tarWriter struct {
	w    *tar.Writer
	buf  []byte
	hash *blake3.Hasher
}

// WriteTar writes items as TarItems reads them: a file whose address is known by
// its address alone. A file that changes its length while it is read is an error
// that names it.
func WriteTar(w io.Writer, items Items) error {
	t := tarWriter{w: tar.NewWriter(w), buf: make([]byte, 64<<10), hash: blake3.New()}
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
		h.PAXRecords = map[string]string{paxRoot: it.Root.String()}
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

// body copies a file of that size, and hashes it if somebody wants to learn its
// address.
func (t *tarWriter) body(f io.Reader, size int64) error {
	l, learns := f.(learner)
	var w io.Writer = justWriter{t.w}
	if learns {
		t.hash.Reset()
		w = io.MultiWriter(w, t.hash)
	}
	n, err := io.CopyBuffer(w, justReader{f}, t.buf)
	switch {
	case errors.Is(err, tar.ErrWriteTooLong) || err == nil && n < size:
		return status.Errorf(status.Conflict, "the file changed while it was read; add it again")
	case err != nil:
		return err
	}
	if learns {
		l.learn(b3.Root(t.hash.Sum(nil)))
	}
	return nil
}

// justReader and justWriter hide that a file and a tar could copy by
// themselves, with a buffer of their own for each file.
type (
	justReader struct{ io.Reader }
	justWriter struct{ io.Writer }
)
