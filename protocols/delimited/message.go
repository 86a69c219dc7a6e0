// Package delimited is how the small exchanges of discovery talk on a stream: a
// message is its length, a uvarint, and so many bytes. It is for exchanges of a
// few messages; sessions and objects have frames of their own (OAP1 §1).
//
// A message is as long as its reader allows, which is checked before memory is
// taken for it. Neither side sets deadlines here: the caller owns the stream.
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

// Write writes the length of p and p in one Write.
func Write(w io.Writer, p []byte) error {
	buf := make([]byte, 0, binary.MaxVarintLen32+len(p))
	buf = binary.AppendUvarint(buf, uint64(len(p)))
	_, err := w.Write(append(buf, p...))
	return err
}

// Read reads a message of at most limit bytes. A longer one is
// status.FrameOversize. At the end of the stream between messages the error is
// io.EOF, inside one io.ErrUnexpectedEOF.
func Read(r *bufio.Reader, limit int) ([]byte, error) {
	n, err := varint.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(limit) {
		return nil, status.Errorf(status.FrameOversize, "a message of %d bytes, above %d", n, limit)
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

// Failure gives the error of a call its outcome: what the peer refused it with,
// the context's when it ended, the error's own when it has one, else that the
// peer misbehaved or could not be reached.
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
