package dht

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/cores"
	"allium/internal/guard"
	"allium/internal/ipgroup"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/delimited"
	"allium/protocols/dht/allowance"
	"allium/protocols/dht/dialback"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
	"allium/protocols/name"
	"allium/protocols/status"
)

// server answers requests of the provider exchange, one per stream.
type server struct {
	held
	self   peer.ID
	filter Filter

	// ownRecord returns a new record of this node, and an error if this node does not have
	// the object. It may be nil.
	ownRecord func(ctx context.Context, root b3.Root) (messages.Sealed, error)

	nearest  func(key []byte, asking network.Conn) []peer.AddrInfo
	dialback *dialback.Checker
	guard    *allowance.Guard
	m        *metrics
	log      *slog.Logger

	ctx context.Context // ends when the service stops

	streams latch.Latch
}

// held are the records that a server stores and answers with, and what verifies new ones.
type held struct {
	store  *providerStore
	names  *namestore.Store
	verify *verifier
}

// handle is the stream handler. It returns when the exchange has ended.
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

// exchange reads a request, serves it and writes the response. After an error the stream
// must be reset.
func (v *server) exchange(ctx context.Context, from network.Conn, rw io.ReadWriter) error {
	p, err := delimited.Read(bufio.NewReader(rw), messages.MaxMessage)
	if err != nil {
		return err
	}
	r, op := v.serveAdmitted(ctx, from, p)
	v.m.served.WithLabelValues(op, status.FromCode(int(r.Code)).String()).Inc()
	answer, err := r.Encode()
	if err != nil {
		return err
	}
	return delimited.Write(rw, answer)
}

// serveAdmitted serves a request that the guard admits. It answers any other with the
// refusal.
func (v *server) serveAdmitted(ctx context.Context, from network.Conn, p []byte) (r messages.Response, op string) {
	release, err := v.guard.Admit(ctx, from.RemotePeer(), ipgroup.Of(from.RemoteMultiaddr()), len(p))
	if err != nil {
		return messages.ErrorResponse(err), opUnknown
	}
	defer release()
	done, err := v.guard.Work(ctx)
	if err != nil {
		return messages.ErrorResponse(err), opUnknown
	}
	defer done()
	op = opUnknown
	err = guard.Guard{Log: v.log, Err: errPanicked}.Run("provider exchange: panic", func() error {
		r, op = v.serve(ctx, from, p)
		return nil
	}, nil)
	if err != nil {
		return messages.ErrorResponse(err), op
	}
	return r, op
}

var errPanicked = status.Errorf(status.Internal, "the handler panicked")

// opUnknown is the label of a request that was not decoded.
const opUnknown = "unknown"

// serve answers one request. op is a bounded label.
func (v *server) serve(ctx context.Context, from network.Conn, p []byte) (r messages.Response, op string) {
	op = opUnknown
	q, err := messages.DecodeRequest(p)
	if err != nil {
		v.m.refused(err)
		return messages.ErrorResponse(err), op
	}
	switch q.Op {
	case messages.OpGet:
		return getResponse(v.records(ctx, q.Root()), v.nearest(q.Root().Multihash(), from)), "get"
	case messages.OpGetName:
		held := v.nameRecords(q.Name())
		return messages.NameResponse(held, v.nearest([]byte(name.KeyOf(q.Name())), from)), "get_name"
	case messages.OpPutName:
		op, err = "put_name", v.putName(ctx, from, q)
	case messages.OpPut:
		op, err = "put", v.put(ctx, from, q)
	}
	if err != nil {
		v.m.refused(err)
		return messages.ErrorResponse(err), op
	}
	return messages.Response{Code: uint64(status.OK.Code())}, op
}

// nameRecords returns the records of a name, none if it is denied.
func (v *server) nameRecords(of namestore.Key) []name.Signed {
	held := v.names.Get(of, v.verify.now())
	if len(held) > 0 && v.filter.Name(held[0].Name) != nil {
		return nil
	}
	return held
}

// records returns the records for root, none if root is denied. If this node has the object but no valid record as its
// provider, records adds a new one. So a request finds an object that is not yet published, or no longer.
func (v *server) records(ctx context.Context, root b3.Root) []sourced {
	if v.filter.Object(root) != nil {
		return nil
	}
	now := v.verify.now()
	held := v.store.get(root, messages.MaxProviders, now)
	isOwn := func(s sourced) bool { return s.Provider == v.self && !s.FutureDated(now) }
	if v.ownRecord == nil || slices.ContainsFunc(held, isOwn) {
		return held
	}
	own, err := v.ownRecord(ctx, root)
	if err != nil {
		return held
	}
	return append([]sourced{{Sealed: own}}, held[:min(len(held), messages.MaxProviders-1)]...)
}

// put verifies the record of a request and stores it.
func (v *server) put(ctx context.Context, from network.Conn, q messages.Request) error {
	opened, err := v.verify.open(ctx, q.Envelope, q.PeerRecord, q.Root())
	if err != nil {
		return err
	}
	if opened.Provider != from.RemotePeer() {
		return messages.Refuse(messages.WrongSender, nil)
	}
	at, reached := v.dialback.Source(from)
	rec := sourced{opened, source{group: at.Group, reached: reached}}
	err = v.store.put(rec, v.verify.now())
	if err == nil || messages.RefusalOf(err) == messages.Full {
		v.checkReached(at, rec, from)
	}
	return err
}

// checkReached has a provider dialed back that is not known to be reachable. If it is
// reached, its records count as those of a reached provider, and rec is stored again in
// case there was no place for it before.
func (v *server) checkReached(at dialback.Provider, rec sourced, from network.Conn) {
	if rec.reached {
		return
	}
	v.dialback.Check(at, rec.Addrs.Addrs, from.RemoteMultiaddr(), func() {
		rec.reached = true
		v.store.reached(at.ID, at.Group)
		_ = v.store.put(rec, v.verify.now()) // fails if the key or a newer record leaves no place
	})
}

// close waits for the streams being served. The server's context has ended, so they end
// soon.
func (v *server) close() { v.streams.CloseAndWait() }

// verifier verifies records, a bounded number at a time (two signature checks, about
// 0.2 ms, per record). The stream's own goroutine does the work while it holds a place, so
// that no connection's reader waits for it.
type verifier struct {
	now        func() time.Time
	gate       *limits.Gate
	onVerified func(messages.Sealed) // called for every valid record; may be nil
	cores      *cores.Pool           // may be nil
}

// enter waits for a place, and then for a core, and takes both. The caller calls leave after the check.
func (v *verifier) enter(ctx context.Context) (leave func(), err error) {
	release, err := v.gate.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait to verify a record: %w", err)
	}
	if err := v.cores.Acquire(ctx, cores.Foreground); err != nil {
		release()
		return nil, fmt.Errorf("wait to verify a record: %w", err)
	}
	return func() { v.cores.Leave(cores.Foreground); release() }, nil
}

func (v *verifier) open(ctx context.Context, envelope, peerRecord []byte, root b3.Root) (messages.Sealed, error) {
	leave, err := v.enter(ctx)
	if err != nil {
		return messages.Sealed{}, err
	}
	defer leave()
	return v.check(envelope, peerRecord, root)
}

// reopen is open for one of many stored records, which nobody waits for. It takes no place from those that somebody
// waits for, as it may wait for a core for long.
func (v *verifier) reopen(ctx context.Context, envelope, peerRecord []byte, root b3.Root) (messages.Sealed, error) {
	if err := v.cores.Acquire(ctx, cores.Background); err != nil {
		return messages.Sealed{}, fmt.Errorf("wait to verify a record: %w", err)
	}
	defer v.cores.Leave(cores.Background)
	return v.check(envelope, peerRecord, root)
}

func (v *verifier) check(envelope, peerRecord []byte, root b3.Root) (messages.Sealed, error) {
	rec, err := messages.Open(envelope, peerRecord, root, v.now())
	if err == nil && v.onVerified != nil {
		v.onVerified(rec)
	}
	return rec, err
}
