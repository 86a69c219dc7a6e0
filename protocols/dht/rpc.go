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

// rpcClient makes remote calls. A call uses one stream, for one request and one response.
// It takes at most timeout, dial included. It ends at once with its context: the stream is
// reset, which the remote peer sees. rpcClient reports the result of each call to the
// routing table.
type rpcClient struct {
	host    streamOpener
	timeout time.Duration
	table   feedback

	connected func(peer.ID) bool
	dials     *limits.Gate // bounds calls to peers that are not connected
}

// streamOpener is the part of a host that an rpcClient uses.
type streamOpener interface {
	NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error)
}

// feedback receives the results of calls. The routing table implements it.
type feedback interface {
	Seen(ctx context.Context, p peer.ID, rtt time.Duration)
	Failed(ctx context.Context, p peer.ID)
}

// call sends q to p and returns the response, of at most limit bytes, and the round-trip
// time without the dial.
func (c *rpcClient) call(
	ctx context.Context, p peer.ID, proto protocol.ID, q []byte, limit int,
) (answer []byte, rtt time.Duration, err error) {
	start := time.Now()
	err = c.stream(ctx, p, proto, func(s network.Stream) error {
		sent := time.Now()
		if err := delimited.Write(s, q); err != nil {
			return err
		}
		// A peer that has answered or refused already may have stopped reading. Closing
		// then fails without the reason; reading returns what the peer said.
		closed := s.CloseWrite()
		var err error
		answer, err = delimited.Read(bufio.NewReader(s), limit)
		rtt = time.Since(sent)
		if err != nil {
			return errors.Join(err, closed)
		}
		return nil
	})
	c.report(ctx, p, rtt, time.Since(start), err)
	return answer, rtt, err
}

// report tells the routing table the result of a call. A peer that is busy or refuses is
// alive and not reported. A call that was canceled well before its timeout says nothing
// about the peer.
func (c *rpcClient) report(ctx context.Context, p peer.ID, rtt, took time.Duration, err error) {
	switch o := status.Of(err); {
	case o == status.OK:
		c.table.Seen(ctx, p, rtt)
	case ctx.Err() != nil && took < c.timeout-c.timeout/16:
	case o == status.Timeout || o == status.Canceled || o == status.Upstream:
		c.table.Failed(context.WithoutCancel(ctx), p)
	}
}

// stream opens a stream, runs f on it within the timeout, and closes it. It resets the
// stream if f or ctx fails.
func (c *rpcClient) stream(ctx context.Context, p peer.ID, proto protocol.ID, f func(network.Stream) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s, err := c.open(ctx, p, proto)
	if err != nil {
		return delimited.Failure(ctx, fmt.Errorf("open a stream: %w", err))
	}
	// The context that open received covers only the opening.
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := f(s); err != nil {
		_ = s.Reset()
		return delimited.Failure(ctx, fmt.Errorf("call %s: %w", proto, err))
	}
	_ = s.Close()
	return nil
}

// open opens a stream. The dials gate bounds the peers dialed at a time, because too many
// connections to strangers can fill the tables of a home router.
func (c *rpcClient) open(ctx context.Context, p peer.ID, proto protocol.ID) (network.Stream, error) {
	if !c.connected(p) {
		release, err := c.dials.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return c.host.NewStream(ctx, p, proto)
}
