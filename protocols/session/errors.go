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

// Why a session ends. Those that are not errors of the peer carry what a call
// in flight is told.
var (
	errEnded      = errors.New("session: the peer ended the stream")
	errIdle       = errors.New("session: idle")
	errGoneAway   = errors.New("session: the peer is going away and has answered everything")
	errStopped    = status.Errorf(status.Draining, "session: this node is shutting down")
	errSupplanted = status.Errorf(status.TransportDown, "session: the peer opened another session")

	// errGone: the session ended before the peer saw the request, so that it
	// may be sent again over another.
	errGone = status.Errorf(status.TransportDown, "session: the peer closed the session before it took the request; try again")
)

// errDraining answers new requests during a drain.
var errDraining = status.Errorf(status.Draining, "this node is shutting down; ask another")

// resetCode is what a stream that ends with err is reset with.
func resetCode(err error) network.StreamErrorCode {
	var de *oap.DecodeError
	switch {
	case errors.As(err, &de):
		return network.StreamErrorCode(de.StreamErrorCode())
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		return network.StreamShutdown
	case errors.Is(err, errSupplanted):
		return network.StreamSupplanted
	case status.Of(err) == status.Busy: // it made room for others
		return network.StreamResourceLimitExceeded
	}
	return network.StreamNoError
}

// peerFull is when to ask a peer again that has no place for a session: it
// frees one when another is idle.
const peerFull = time.Second

// remoteError says what a stream's error means for whoever asked over it.
func remoteError(err error) error {
	var se *network.StreamError
	if errors.As(err, &se) && se.Remote {
		if r, ok := oap.ReasonOfStreamError(uint32(se.ErrorCode)); ok {
			return &status.Error{Outcome: status.BadFrame, Detail: r.String(), Err: err,
				Message: "session: the peer refused a frame of ours as " + r.String() + "; one of the two programs has a bug, report it with both versions"}
		}
		switch se.ErrorCode {
		case network.StreamShutdown:
			return status.Errorf(status.Draining, "session: the peer is shutting down; ask another: %w", err)
		case network.StreamResourceLimitExceeded, network.StreamRateLimited:
			busy := status.Errorf(status.Busy, "session: the peer takes no more sessions; try later: %w", err)
			busy.Limit = &status.Limit{Name: "session.sessions", RetryAfter: peerFull} // the peer's: it says no numbers
			return busy
		}
	}
	var s interface{ Status() status.Outcome }
	switch {
	case errors.As(err, &s):
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("session: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return status.Errorf(status.Timeout, "session: call: no answer in time: %w", err)
	case graceful(err):
		return errGone
	}
	return status.Errorf(status.TransportDown, "session: the connection to the peer failed: %w", err)
}
