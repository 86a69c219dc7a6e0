package files

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"allium/node/files/archive"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Headers and small files are gathered, because net/http sends each write in a system call of its own.
const (
	gatheredBytes = 64 << 10
	gatheredFor   = 50 * time.Millisecond // then they go out with the next item, so that a slow disk shows progress
)

// tarWriter writes items as TarItems reads them.
type tarWriter struct {
	w    *tar.Writer
	buf  []byte
	sent func(record func(b3.Root)) // called for each file whose bytes were written; see sentFiles.add
}

// WriteTar writes the items as a tar for TarItems. A file with a known address is
// written without its bytes. A file that has another size than it told is read again
// once, if it is small; then it is left out, or ends the tar with an error that names it.
func WriteTar(w io.Writer, items Items) error {
	return writeTar(w, items, func(func(b3.Root)) {})
}

// writeTar is WriteTar, and calls sent after the bytes of each file.
func writeTar(w io.Writer, items Items, sent func(record func(b3.Root))) error {
	gathered := bufio.NewWriterSize(w, gatheredBytes)
	t := tarWriter{w: tar.NewWriter(gathered), buf: make([]byte, 64<<10), sent: sent}
	err := t.items(items, gathered)
	if flushed := gathered.Flush(); err == nil { // also after an error: what was written before it is to be stored
		err = flushed
	}
	return err
}

func (t *tarWriter) items(items Items, gathered *bufio.Writer) error {
	flushed := time.Now()
	for it, err := range items {
		if err != nil {
			return err
		}
		if err := t.item(it); err != nil {
			return fmt.Errorf("%s: %w", it.Path, err)
		}
		if now := time.Now(); now.Sub(flushed) > gatheredFor {
			if err := gathered.Flush(); err != nil {
				return err
			}
			flushed = now
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
	done, err := t.file(h, &it)
	if err == nil && !done {
		done, err = t.file(h, &it)
	}
	if err != nil || done {
		return err
	}
	changed := it.changed()
	if changed.leaveOut() {
		return nil
	}
	changed.twice = true
	return changed
}

// file writes a file. A small one is read before its header is written; done is false, and nothing is
// written, if it has another size than it told. For a larger one that is a *changedError, and ends the tar.
func (t *tarWriter) file(h *tar.Header, it *Item) (done bool, err error) {
	f, err := it.Open()
	if err != nil {
		return false, err
	}
	defer f.Close()
	if h.Size, err = toldSize(f); err != nil {
		return false, err
	}
	if h.Size < 0 {
		return false, status.Errorf(status.Internal, "cannot tell the size before reading")
	}
	small := h.Size < int64(len(t.buf))
	if small {
		n, err := io.ReadFull(f, t.buf[:h.Size+1])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, diskError(err)
		}
		if int64(n) != h.Size {
			return false, nil
		}
	}
	if err := t.w.WriteHeader(h); err != nil {
		return false, err
	}
	n := h.Size
	if small {
		_, err = t.w.Write(t.buf[:n])
	} else {
		n, err = io.CopyBuffer(plainWriter{t.w}, plainReader{f}, t.buf)
	}
	switch {
	case errors.Is(err, tar.ErrWriteTooLong) || err == nil && n < h.Size:
		return false, it.changed()
	case err != nil:
		return false, diskError(err)
	}
	var record func(b3.Root)
	if c, ok := f.(cacheable); ok {
		record = c.recorder()
	}
	t.sent(record)
	return true, nil
}

// plainReader and plainWriter hide the methods ReadFrom and WriteTo. With them,
// io.CopyBuffer would allocate a new buffer for each file.
type (
	plainReader struct{ io.Reader }
	plainWriter struct{ io.Writer }
)
