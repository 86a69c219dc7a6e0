// Package delimited reads and writes messages that have their length, a uvarint, in front.
// The exchanges of discovery, of a few messages each, use it. Sessions and objects have
// frames of their own (OAP1 §1).
//
// The reader bounds the length of a message and checks it before it allocates memory. The
// package sets no deadlines: the caller owns the stream. In one exchange the client calls
// [Write] and [Read], and [Failure] gives an error its outcome.
package delimited

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-varint"

	"allium/protocols/status"
)

// Write writes the length of p and p in a single call of w.Write.
func Write(w io.Writer, p []byte) error {
	buf := make([]byte, 0, binary.MaxVarintLen32+len(p))
	buf = binary.AppendUvarint(buf, uint64(len(p)))
	_, err := w.Write(append(buf, p...))
	return err
}

// Read reads a message of at most limit bytes. A longer one is status.FrameOversize. The
// error is io.EOF if the stream ends before a message, and io.ErrUnexpectedEOF if it ends
// within one.
func Read(r *bufio.Reader, limit int) ([]byte, error) {
	n, err := varint.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(limit) {
		return nil, status.Errorf(status.FrameOversize, "message has %d bytes, more than %d", n, limit)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return p, nil
}

// Failure gives the error of a call an outcome: Busy or RateLimit if the peer reset the stream
// with that code; ctx's outcome if ctx has ended; the error's own outcome if it has one; else
// Upstream.
func Failure(ctx context.Context, err error) error {
	var reset *network.StreamError
	if errors.As(err, &reset) && reset.Remote {
		switch reset.ErrorCode {
		case network.StreamResourceLimitExceeded:
			return status.Errorf(status.Busy, "%w", err)
		case network.StreamRateLimited:
			return status.Errorf(status.RateLimit, "%w", err)
		}
	}
	if cerr := ctx.Err(); cerr != nil {
		return status.Errorf(status.Of(cerr), "%w", err)
	}
	if o := status.Of(err); o != status.Internal {
		return err
	}
	return status.Errorf(status.Upstream, "%w", err)
}
