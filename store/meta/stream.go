package meta

import (
	"fmt"
	"io"
)

// Fill reads from r until p is full or r ends. full reports that p is full. Unlike
// io.ReadFull, it does not turn the end of r into io.ErrUnexpectedEOF, so that the
// same error from r itself is seen.
func Fill(r io.Reader, p []byte) (n int, full bool, err error) {
	for idle := 0; n < len(p); {
		m, err := r.Read(p[n:])
		n += m
		if err == io.EOF {
			return n, n == len(p), nil
		}
		if err != nil {
			return n, false, err
		}
		if m > 0 {
			idle = 0
		} else if idle++; idle == 100 {
			return n, false, io.ErrNoProgress
		}
	}
	return n, true, nil
}

// FullReader is a reader that fills every buffer but the last, so that small reads
// from a network do not become small writes to a disk.
type FullReader struct{ R io.Reader }

// Read implements [io.Reader].
func (f FullReader) Read(p []byte) (int, error) {
	n, full, err := Fill(f.R, p)
	if err != nil {
		return n, fmt.Errorf("read the data: %w", err)
	}
	if !full {
		return n, io.EOF
	}
	return n, nil
}
