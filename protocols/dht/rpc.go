package dht

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/limits"
	"allium/protocols/delimited"
	"allium/protocols/status"
)

// caller makes remote calls: one stream each, one message there, one back. A
// call takes at most timeout, the dial included, and ends at once with its
// context: the stream is reset, which the other side sees. What comes of a call
// is told to the routing table, whoever made it.
type caller struct {
	host    streamOpener
	timeout time.Duration
	table   feedback

	connected func(peer.ID) bool
	dials     *limits.Gate // calls to peers that are not
}

// streamOpener is what a caller needs of a host.
type streamOpener interface {
	NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error)
}

// feedback is what the routing table learns of calls.
type feedback interface {
	Seen(ctx context.Context, p peer.ID, rtt time.Duration)
	Failed(ctx context.Context, p peer.ID)
}

// call sends q to p and returns the answer, at most limit bytes, and the time
// from the request to it, without the dial.
func (c *caller) call(ctx context.Context, p peer.ID, proto protocol.ID, q []byte, limit int) (answer []byte, rtt time.Duration, err error) {
	begun := time.Now()
	err = c.stream(ctx, p, proto, func(s network.Stream) error {
		asked := time.Now()
		if err := delimited.Write(s, q); err != nil {
			return err
		}
		// A peer that has answered or refused by now may have stopped reading.
		// Closing then fails, without its reason; reading tells what it said.
		closed := s.CloseWrite()
		var err error
		answer, err = delimited.Read(bufio.NewReader(s), limit)
		rtt = time.Since(asked)
		if err != nil {
			return errors.Join(err, closed)
		}
		return nil
	})
	c.tell(ctx, p, rtt, time.Since(begun), err)
	return answer, rtt, err
}

// tell reports a call. A peer that is busy or refuses is alive; one that nobody
// waited for until its time was over says nothing.
func (c *caller) tell(ctx context.Context, p peer.ID, rtt, took time.Duration, err error) {
	switch o := status.Of(err); {
	case o == status.OK:
		c.table.Seen(ctx, p, rtt)
	case ctx.Err() != nil && took < c.timeout-c.timeout/16:
	case o == status.Timeout || o == status.Canceled || o == status.Upstream:
		c.table.Failed(context.WithoutCancel(ctx), p)
	}
}

// stream opens a stream, runs f on it within the timeout, and closes it, or
// resets it when f or ctx fails.
func (c *caller) stream(ctx context.Context, p peer.ID, proto protocol.ID, f func(network.Stream) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s, err := c.open(ctx, p, proto)
	if err != nil {
		return delimited.Failure(ctx, fmt.Errorf("dht: open a stream: %w", err))
	}
	// The context given to open covers the opening alone.
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := f(s); err != nil {
		_ = s.Reset()
		return delimited.Failure(ctx, fmt.Errorf("dht: %s: %w", proto, err))
	}
	_ = s.Close()
	return nil
}

// open opens a stream. Only so many peers are dialled at one time: a lookup in
// a network of strangers must not fill the tables of the router at home.
func (c *caller) open(ctx context.Context, p peer.ID, proto protocol.ID) (network.Stream, error) {
	if !c.connected(p) {
		release, err := c.dials.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return c.host.NewStream(ctx, p, proto)
}
