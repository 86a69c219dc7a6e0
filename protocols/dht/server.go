package dht

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/ipgroup"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/delimited"
	"allium/protocols/dht/guard"
	"allium/protocols/status"
)

// server answers the provider exchange: one request per stream.
type server struct {
	store   *providerStore
	verify  *verifier
	self    peer.ID
	own     func(ctx context.Context, root b3.Root) (sealed, error) // a new record of this node; an error when it has not the object; may be nil
	denied  func(root b3.Root) bool                                 // nil: nothing is
	nearest func(key []byte, asking peer.ID) []peer.AddrInfo
	back    *dialback
	guard   *guard.Guard
	m       *metrics
	log     *slog.Logger

	ctx context.Context // ends when the service stops

	streams latch.Latch
}

// handle is the stream handler. It returns when the exchange is over.
func (v *server) handle(s network.Stream) {
	if !v.streams.Enter() {
		_ = s.ResetWithError(network.StreamShutdown)
		return
	}
	defer v.streams.Leave()
	free, err := v.guard.Stream(ipgroup.Of(s.Conn().RemoteMultiaddr()))
	if err != nil {
		_ = s.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer free()
	ctx, cancel := context.WithTimeout(v.ctx, serveTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := v.exchange(ctx, s.Conn(), s); err != nil {
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

// exchange reads a request, serves it and writes the answer. An error means
// that the stream is of no more use.
func (v *server) exchange(ctx context.Context, from network.Conn, rw io.ReadWriter) error {
	p, err := delimited.Read(bufio.NewReader(rw), maxMessage)
	if err != nil {
		return err
	}
	r, op := v.admit(ctx, from, p)
	v.m.served.WithLabelValues(op, status.FromCode(int(r.Code)).String()).Inc()
	answer, err := canonical.Marshal(r)
	if err != nil {
		return err
	}
	return delimited.Write(rw, answer)
}

// admit answers a request that there is room for, and the others with what
// they ran into.
func (v *server) admit(ctx context.Context, from network.Conn, p []byte) (r response, op string) {
	release, err := v.guard.Admit(ctx, from.RemotePeer(), ipgroup.Of(from.RemoteMultiaddr()), len(p))
	if err != nil {
		return errorResponse(err), opUnknown
	}
	defer release()
	done, err := v.guard.Work(ctx)
	if err != nil {
		return errorResponse(err), opUnknown
	}
	defer done()
	return v.serve(ctx, from, p)
}

// opUnknown is the label of a request that was not looked at.
const opUnknown = "unknown"

// serve answers one request. op is a bounded label. A panic is a bug and costs
// this request alone.
func (v *server) serve(ctx context.Context, from network.Conn, p []byte) (r response, op string) {
	op = opUnknown
	defer func() {
		if e := recover(); e != nil {
			v.log.Error("provider exchange: panic", "panic", e, "stack", string(debug.Stack()))
			r = errorResponse(status.Errorf(status.Internal, "dht: panic"))
		}
	}()
	q, root, err := decodeRequest(p)
	if err != nil {
		v.m.refused(err)
		return errorResponse(err), op
	}
	if q.Op == opGet {
		return getResponse(v.held(ctx, root), v.nearest(root.Multihash(), from.RemotePeer())), "get"
	}
	if err := v.put(ctx, from, q, root); err != nil {
		v.m.refused(err)
		return errorResponse(err), "put"
	}
	return response{Code: uint64(status.OK.Code())}, "put"
}

// held returns the records for root. A node that has the object and has not
// published it yet, or no longer, answers with a record of its own: who asks
// the right peer finds it at once. Of an object that is denied there are none.
func (v *server) held(ctx context.Context, root b3.Root) []sealed {
	if v.denied != nil && v.denied(root) {
		return nil
	}
	now := v.verify.now()
	held := v.store.get(root, maxProviders, now)
	if v.own == nil || slices.ContainsFunc(held, func(s sealed) bool { return s.Provider == v.self && !futureDated(s.Record, now) }) {
		return held
	}
	own, err := v.own(ctx, root)
	if err != nil {
		return held
	}
	return append([]sealed{own}, held[:min(len(held), maxProviders-1)]...)
}

// put stores the record of a request after it has been verified.
func (v *server) put(ctx context.Context, from network.Conn, q request, root b3.Root) error {
	s, err := v.verify.open(ctx, q.Envelope, q.PeerRecord, root)
	if err != nil {
		return err
	}
	if s.Provider != from.RemotePeer() {
		return refuse(WrongSender, nil)
	}
	s.source = v.back.sourceOf(from)
	err = v.store.put(s, v.verify.now())
	if err == nil || refusalOf(err) == Full {
		v.back.later(s, from.RemoteMultiaddr())
	}
	return err
}

// close waits for the streams being served; the context given to the server
// has ended, so they end too.
func (v *server) close() { v.streams.Wait() }

// verifier opens records with a bounded number of signature checks at one time
// (two checks, about 0.2 ms, per record). The stream's own goroutine does the
// work while it holds a place, so no connection's reader waits for it.
type verifier struct {
	now  func() time.Time
	gate *limits.Gate
	saw  func(sealed) // is told of every good record; nil: nobody is
}

func (v *verifier) open(ctx context.Context, envelope, peerRecord []byte, root b3.Root) (sealed, error) {
	release, err := v.gate.Acquire(ctx)
	if err != nil {
		return sealed{}, fmt.Errorf("dht: verify: %w", err)
	}
	defer release()
	rec, err := openSealed(envelope, peerRecord, root, v.now())
	if err == nil && v.saw != nil {
		v.saw(rec)
	}
	return rec, err
}
