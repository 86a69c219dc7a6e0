package erasure

import (
	"github.com/klauspost/reedsolomon"

	"allium/protocols/status"
)

// Code computes the shards of stripes from others. It is safe for concurrent use.
type Code struct {
	rs           reedsolomon.Encoder
	data, parity int
}

// NewCode returns the code of a layout: systematic, with the Vandermonde-derived matrix over GF(2⁸) with
// polynomial 0x11D that the reedsolomon module uses by default.
func NewCode(l Layout) (*Code, error) {
	if err := (Layout{1, l.Data, l.Parity}).Check(); err != nil {
		return nil, err
	}
	rs, err := reedsolomon.New(l.Data, l.Parity, reedsolomon.WithMaxGoroutines(1))
	if err != nil {
		return nil, status.Errorf(status.Internal, "make the code of %d+%d shards: %w", l.Data, l.Parity, err)
	}
	return &Code{rs, l.Data, l.Parity}, nil
}

// Encode computes the parity of a part of a stripe. parts are the same bytes of each shard, all of one length; those
// of the parity shards are overwritten.
func (c *Code) Encode(parts [][]byte) error {
	if err := c.rs.Encode(parts); err != nil {
		return status.Errorf(status.Internal, "encode a stripe: %w", err)
	}
	return nil
}

// Rebuild computes the parts of the wanted shards. A part with length 0 is missing; the others have one length. It
// writes into the capacity of a missing part if there is enough. The error is not_found if fewer than k parts are
// there.
func (c *Code) Rebuild(parts [][]byte, wanted []bool) error {
	there := 0
	for _, p := range parts {
		if len(p) > 0 {
			there++
		}
	}
	if there < c.data {
		return TooFew(there, c.data)
	}
	if err := c.rs.ReconstructSome(parts, wanted); err != nil {
		return status.Errorf(status.Internal, "rebuild a shard: %w", err)
	}
	return nil
}

// TooFew returns the not_found error of an object: there shards of a stripe can be read, and data are needed.
func TooFew(there, data int) error {
	return status.Errorf(status.NotFound, "only %d shards can be read now, and %d are needed", there, data)
}
