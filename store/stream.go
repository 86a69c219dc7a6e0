package store

import (
	"context"
	"fmt"
	"io"

	"allium/store/meta"
)

// source is a caller's reader that ends with its context and with the store.
type source struct {
	ctx  context.Context
	stop <-chan struct{}
	r    io.Reader
}

func (s *source) Read(p []byte) (int, error) {
	if err := alive(s.ctx, s.stop); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// alive returns the error of what ended first, nil while nothing has.
func alive(ctx context.Context, stop <-chan struct{}) error {
	select {
	case <-stop:
		return meta.ErrDraining
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// fill reads until p is full, or to the end of r. io.ReadFull would hide that r
// was cut short with io.ErrUnexpectedEOF.
func fill(r io.Reader, p []byte) (n int, full bool, err error) {
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

// filling is a reader that returns short only at the end, so that small reads
// from a network do not become small writes to a disk.
type filling struct{ r io.Reader }

func (f filling) Read(p []byte) (int, error) {
	n, full, err := fill(f.r, p)
	if err != nil {
		return n, fmt.Errorf("read the data: %w", err)
	}
	if !full {
		return n, io.EOF
	}
	return n, nil
}
