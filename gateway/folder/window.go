package folder

import (
	"errors"
	"hash/crc32"
	"io"

	"allium/gateway/content/byterange"
	"allium/protocols/manifest"
)

// window takes an archive byte by byte and passes on a range of it. Bytes outside the range are only counted; they are
// read if their checksum is needed.
type window struct {
	byterange.Range
	at  int64     // bytes of the archive so far
	out io.Writer // nil: nothing is opened or passed on
	// reads is the number of bytes of files that are read, or would be.
	reads int64
}

// done reports whether all of the range was passed on.
func (w *window) done() bool { return w.at >= w.End }

// overlap returns the part of the next n bytes that is in the range, relative to them.
func (w *window) overlap(n int64) (start, end int64) {
	return min(max(w.Start-w.at, 0), n), min(max(w.End-w.at, 0), n)
}

// text takes bytes that are no file's.
func (w *window) text(p []byte) error {
	start, end := w.overlap(int64(len(p)))
	w.at += int64(len(p))
	if start >= end || w.out == nil {
		return nil
	}
	_, err := w.out.Write(p[start:end])
	return err
}

// file takes the bytes of a file of the tree, and returns their CRC-32 if summed is set.
func (w *window) file(t *tree, path string, e *manifest.Entry, summed bool) (crc uint32, err error) {
	start, end := w.overlap(e.Size)
	w.at += e.Size
	if summed {
		w.reads += e.Size
	} else if start < end {
		w.reads += end - start
	}
	if w.out == nil || !summed && start >= end {
		return 0, nil
	}
	to := &partWriter{out: w.out, start: start, end: end, summed: summed}
	if !summed {
		to.at = start
	} else {
		start, end = 0, e.Size
	}
	if err := copyFile(t, path, e, to, start, end); err != nil {
		return 0, err
	}
	return to.crc, nil
}

// copyFile copies the bytes [start, end) of a file of the tree.
func copyFile(t *tree, path string, e *manifest.Entry, to io.Writer, start, end int64) error {
	if p := t.Memory(e.Root); p != nil {
		if int64(len(p)) != e.Size {
			return falseSize(path, e)
		}
		_, err := to.Write(p[start:end])
		return err
	}
	c, _, err := t.Open(e.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	t.Arrives()
	if c.Size() != e.Size {
		return falseSize(path, e)
	}
	if start == end {
		return nil
	}
	return c.Copy(t.Context(), to, start, end)
}

// partWriter passes on the bytes [start, end) of a file.
type partWriter struct {
	out        io.Writer
	start, end int64
	at         int64
	summed     bool
	crc        uint32
}

func (p *partWriter) Write(b []byte) (int, error) {
	if p.summed {
		p.crc = crc32.Update(p.crc, crc32.IEEETable, b)
	}
	n := int64(len(b))
	from, to := min(max(p.start-p.at, 0), n), min(max(p.end-p.at, 0), n)
	p.at += n
	if from < to {
		if _, err := p.out.Write(b[from:to]); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// errDone ends the walk of an archive whose range was passed on.
var errDone = errors.New("the range is complete")

// more returns errDone if the rest of the archive is not wanted. A window that passes nothing on counts all of it.
func (w *window) more() error {
	if w.End > 0 && w.done() {
		return errDone
	}
	return nil
}
