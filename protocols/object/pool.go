package object

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/inbound"
	"allium/internal/limits"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// pool holds the streams of a client. One request owns a stream at a time; the pool
// keeps an idle stream for StreamIdle.
//
// Invariants: the gates allow at most StreamsPerPeer streams in use for each peer
// and Streams in total. The client opens a stream only if the peer has no idle
// stream, and the pool first closes the least recently used idle stream if there
// are Streams. So the same bounds hold for open streams.
type pool struct {
	cfg     atomic.Pointer[Config]
	host    Opener
	metrics *metrics
	inbound *inbound.Memory
	codec   *oap.Codec
	gates   poolGates
	timers  sync.WaitGroup // armed timers of idle streams

	mu     sync.Mutex // lock: leaf
	closed bool
	count  int                    // open streams, including idle ones
	idle   []*clientStream        // least recently used first
	asked  map[peer.ID]*askedPeer // peers with requests in flight or waiting
}

// poolGates bound the streams in use.
type poolGates struct {
	total   *limits.Gate
	perPeer *limits.Gate
}

// askedPeer limits the requests in flight to one peer.
type askedPeer struct {
	gate  *limits.Gate
	users int // guarded by pool.mu
}

func newPool(cfg Config, deps ClientDeps, m *metrics) *pool {
	p := &pool{
		host: deps.Host, metrics: m, inbound: deps.Inbound, codec: deps.Codec,
		asked: map[peer.ID]*askedPeer{},
		gates: poolGates{
			total: deps.Limits.NewGate(limits.Spec{
				Name: "object.client_streams", Path: "resolver → object streams to peers", Policy: "wait, then busy",
			}, cfg.Streams, cfg.StreamsWait),
			perPeer: deps.Limits.NewGate(limits.Spec{
				Name: "object.streams_per_peer", Path: "resolver → object streams to one peer",
				Policy: "wait, then busy", Each: "peer",
			}, cfg.StreamsPerPeer, cfg.StreamsWait),
		},
	}
	p.cfg.Store(&cfg)
	return p
}

// enter waits until the caller may use one stream to the peer. The error is busy if
// too many callers wait. The caller must call leave when the request is done.
func (p *pool) enter(ctx context.Context, id peer.ID) (leave func(), err error) {
	ap, err := p.addUser(id)
	if err != nil {
		return nil, err
	}
	mine, err := ap.gate.Acquire(ctx)
	if err != nil {
		p.removeUser(id, ap)
		return nil, err
	}
	all, err := p.gates.total.Acquire(ctx)
	if err != nil {
		mine()
		p.removeUser(id, ap)
		return nil, err
	}
	return func() {
		all()
		mine()
		p.removeUser(id, ap)
	}, nil
}

func (p *pool) addUser(id peer.ID) (*askedPeer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, status.Errorf(status.Draining, "the node is stopping")
	}
	ap := p.asked[id]
	if ap == nil {
		ap = &askedPeer{gate: p.gates.perPeer.Member()}
		p.asked[id] = ap
	}
	ap.users++
	return ap, nil
}

func (p *pool) removeUser(id peer.ID, ap *askedPeer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ap.users--; ap.users == 0 {
		delete(p.asked, id)
	}
}

// reuse returns the most recently used idle stream to the peer, or nil.
func (p *pool) reuse(id peer.ID) *clientStream {
	for {
		st := p.takeIdle(func(st *clientStream) bool { return st.peer == id })
		if st == nil || !st.Conn().IsClosed() {
			return st
		}
		p.drop(st, network.StreamNoError)
	}
}

// takeIdle removes and returns the most recently used idle stream that matches, or
// returns nil.
func (p *pool) takeIdle(wanted func(*clientStream) bool) *clientStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if st := p.idle[i]; wanted(st) {
			p.removeIdle(i)
			return st
		}
	}
	return nil
}

// removeIdle removes idle stream i from the list and stops its timer. The caller
// holds p.mu.
func (p *pool) removeIdle(i int) {
	st := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	if st.timer.Stop() {
		p.timers.Done()
	}
}

// open opens a stream to the peer. If the pool has too many streams, it closes the
// least recently used idle stream first. The error is timeout after OpenTimeout, and
// otherwise transport_down.
func (p *pool) open(ctx context.Context, id peer.ID) (*clientStream, error) {
	var oldest *clientStream
	p.mu.Lock()
	p.count++
	if int64(p.count) > p.cfg.Load().Streams && len(p.idle) > 0 {
		oldest = p.idle[0]
		p.removeIdle(0)
	}
	p.mu.Unlock()
	if oldest != nil {
		p.drop(oldest, network.StreamGarbageCollected)
	}
	opening, cancel := context.WithTimeout(ctx, p.cfg.Load().OpenTimeout)
	defer cancel()
	st, err := p.host.NewStream(opening, id, ProtocolID)
	if err != nil {
		p.streamClosed()
		if opening.Err() != nil && ctx.Err() == nil {
			return nil, status.Errorf(status.Timeout, "no stream after %s: %w", p.cfg.Load().OpenTimeout, err)
		}
		return nil, status.Errorf(status.TransportDown, "cannot open a stream: %w", err)
	}
	p.metrics.outbound.Inc()
	return newClientStream(ctx, id, st, *p.cfg.Load(), p.inbound, p.codec), nil
}

func (p *pool) streamClosed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
}

// drop resets a stream that is not in the pool.
func (p *pool) drop(st *clientStream, code network.StreamErrorCode) {
	st.discard(code)
	p.metrics.outbound.Dec()
	p.streamClosed()
}

// put keeps st for the next request, or drops it if it cannot serve one.
func (p *pool) put(st *clientStream) {
	if !st.park() || !p.addIdle(st) {
		p.drop(st, network.StreamNoError)
	}
}

func (p *pool) addIdle(st *clientStream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.idle = append(p.idle, st)
	p.timers.Add(1)
	st.timer = time.AfterFunc(p.cfg.Load().StreamIdle, func() {
		defer p.timers.Done()
		p.expire(st)
	})
	return true
}

// expire drops st if it is still idle.
func (p *pool) expire(st *clientStream) {
	p.mu.Lock()
	i := slices.Index(p.idle, st)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		p.drop(st, network.StreamGarbageCollected)
	}
}

// close drops the idle streams and waits for their timers.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	for _, st := range idle {
		if st.timer.Stop() {
			p.timers.Done()
		}
	}
	p.mu.Unlock()
	for _, st := range idle {
		p.drop(st, network.StreamNoError)
	}
	p.timers.Wait()
}
