package meta

import (
	"fmt"
	"io"
)

// Fill reads until p is full, or to the end of r. io.ReadFull would hide that r
// was cut short with io.ErrUnexpectedEOF.
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

// FullReader is a reader that returns short only at the end, so that small reads
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
