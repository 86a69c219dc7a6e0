package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// The reasons why a session ends. Calls in flight get errStopped and errSupplanted
// unchanged; remoteError replaces the others.
var (
	errEnded      = errors.New("the peer ended the stream")
	errIdle       = errors.New("the session is idle")
	errGoneAway   = errors.New("the peer is going away and has answered everything")
	errStopped    = status.Errorf(status.Draining, "this node is shutting down")
	errSupplanted = status.Errorf(status.TransportDown, "the peer opened another session")

	// errGone reports that the session ended before the peer accepted the request.
	// The request may be sent again over another session.
	errGone = status.Errorf(status.TransportDown,
		"the peer closed the session before it accepted the request; try again")
)

// errDraining answers new requests during a drain.
var errDraining = status.Errorf(status.Draining, "this node is shutting down; ask another")

// resetCode returns the code of the reset of a stream that ends with err.
func resetCode(err error) network.StreamErrorCode {
	var de *oap.DecodeError
	switch {
	case errors.As(err, &de):
		return network.StreamErrorCode(de.StreamErrorCode())
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		return network.StreamShutdown
	case errors.Is(err, errSupplanted):
		return network.StreamSupplanted
	case status.Of(err) == status.Busy: // its memory was taken for another frame
		return network.StreamResourceLimitExceeded
	}
	return network.StreamNoError
}

// peerFull is the wait before asking a peer again that accepts no more sessions. The
// peer can accept one when another is idle.
const peerFull = time.Second

// remoteError converts an error of a stream to the error of a call over it.
func remoteError(err error) error {
	var se *network.StreamError
	if errors.As(err, &se) && se.Remote {
		if r, ok := oap.ReasonOfStreamError(uint32(se.ErrorCode)); ok {
			return &status.Error{
				Outcome: status.BadFrame, Detail: r.String(), Err: err,
				Message: "the peer rejected a frame of this node as " + r.String() +
					"; one of the two programs has a bug, report it with both versions",
			}
		}
		switch se.ErrorCode {
		case network.StreamShutdown:
			return status.Errorf(status.Draining, "the peer is shutting down; ask another: %w", err)
		case network.StreamResourceLimitExceeded, network.StreamRateLimited:
			busy := status.Errorf(status.Busy, "the peer accepts no more sessions; try later: %w", err)
			// the peer's limit, without numbers
			busy.Limit = &status.Limit{Name: "session.sessions", RetryAfter: peerFull}
			return busy
		}
	}
	switch {
	case status.HasOutcome(err):
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("wait for the peer: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return status.Errorf(status.Timeout, "the peer did not answer in time: %w", err)
	case graceful(err):
		return errGone
	}
	return status.Errorf(status.TransportDown, "the connection to the peer failed: %w", err)
}
