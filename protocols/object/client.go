package object

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/inbound"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Opener is what a [Client] needs of a libp2p host.
type Opener interface {
	NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error)
}

// ClientDeps is what a [Client] works with. Host is required.
type ClientDeps struct {
	Host Opener
	// MaxFrame is the max_frame negotiated on a connection, in bytes; nil:
	// oap.MaxFrame.
	MaxFrame func(network.Conn) uint32

	Hash    *b3.HashQueue         // that groups pass; nil: none
	Metrics prometheus.Registerer // nil: not registered
	Limits  *limits.Registry      // nil: limits work and are listed nowhere
	Inbound *inbound.Memory       // of frames that are not complete; nil: not bounded
}

// Client asks peers for objects. It is safe for concurrent use.
type Client struct {
	cfg      Config
	hash     *b3.HashQueue // nil: none
	maxFrame func(network.Conn) uint32
	metrics  *metrics
	pool     *pool
}

// Sink takes the answer to a get: for each object in request order Begin, then
// Item for each item of the walk of OAP1.md §9, then End. A missing object has
// only its End. All calls come from the goroutine that called Get. An error
// aborts the request and is what Get returns; no call follows it.
//
// A sink that does not return stops the stream: beyond what its window holds the
// peer waits for its write timeout (5 s) and then gives up, and with nothing left
// to send for its idle timeout (30 s). Whoever wants an object slowly asks for it
// in ranges.
type Sink interface {
	// Begin starts object i of the request. size is a claim, in bytes, until an
	// item says SizeProved.
	Begin(i int, size int64) error
	// Item is a verified parent or group. With a size proof the items of the
	// proof come first and may come again. p's data is valid only during the
	// call.
	Item(i int, p b3.Proved) error
	// End ends object i. With nil, every item of the ranges was handed over;
	// else err says why not: status not_found, gone, corrupt, …
	End(i int, err error) error
}

// GetRequest says what to get.
type GetRequest struct {
	Objs      []b3.Root  // 1 to MaxGet
	Ranges    []b3.Range // only with one object; none: the whole
	SizeProof bool       // prove the size before anything else
	MaxSize   int64      // refuse an object that claims more bytes (status body_cap); 0: no limit
}

// NewClient validates and starts nothing. Close it when done.
func NewClient(cfg Config, deps ClientDeps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil {
		return nil, errors.New("object: a client needs a host")
	}
	if deps.MaxFrame == nil {
		deps.MaxFrame = func(network.Conn) uint32 { return oap.MaxFrame }
	}
	m := newMetrics(deps.Metrics)
	return &Client{cfg: cfg, hash: deps.Hash, maxFrame: deps.MaxFrame, metrics: m, pool: newPool(cfg, deps, m)}, nil
}

// Close closes the idle streams and refuses new requests. Requests in flight go
// on until their context ends. It is idempotent.
func (c *Client) Close() error {
	c.pool.close()
	return nil
}

// Get asks p for objects and hands what it proves to sink, item by item. It
// returns nil when every object had its End; otherwise the objects without one
// were not answered, and the error says why:
//
//   - corrupt: bytes that do not match the address;
//   - upstream: an answer that breaks the protocol, or a stream that broke;
//   - timeout: no byte for Config.ReadTimeout, a frame slower than
//     Config.MinRate, or ctx's deadline;
//   - busy, draining and the like: the peer refused the request;
//   - body_cap: an object that claims more than MaxSize;
//   - bad_request, bad_range: req itself;
//   - the sink's own error.
//
// What was verified before an error has reached the sink.
func (c *Client) Get(ctx context.Context, p peer.ID, req GetRequest, sink Sink) error {
	switch n := len(req.Objs); {
	case n == 0 || n > MaxGet:
		return status.Errorf(status.BadRequest, "object: get of %d objects, want 1 to %d", n, MaxGet)
	case len(req.Ranges) > 0 && n > 1:
		return status.Errorf(status.BadRequest, "object: ranges with %d objects, want one", n)
	}
	if err := checkRanges(req.Ranges); err != nil {
		return err
	}
	w := wireGet{common: newCommon(ctx, opGet), Objs: req.Objs, SizeProof: req.SizeProof}
	for _, r := range req.Ranges {
		w.Ranges = append(w.Ranges, [2]int64{r.Start, r.End})
	}
	a := &getAnswer{req: &req, sink: sink, hash: c.hash, count: func(n int) { c.metrics.bytesIn.Add(float64(n)) }}
	err := a.fail(c.ask(ctx, p, opGet, w, a))
	var own *sinkError
	if errors.As(err, &own) {
		return own.err
	}
	return err
}

// Have asks which of objs p has, MaxHave in each request. The answer is in their
// order and is not verified.
func (c *Client) Have(ctx context.Context, p peer.ID, objs []b3.Root) ([]b3.Presence, error) {
	present := make([]b3.Presence, len(objs))
	for at := 0; at < len(objs); at += MaxHave {
		to := min(at+MaxHave, len(objs))
		w := wireHave{common: newCommon(ctx, opHave), Objs: objs[at:to]}
		if err := c.ask(ctx, p, opHave, w, &haveAnswer{present: present[at:to]}); err != nil {
			return nil, err
		}
	}
	return present, nil
}

func newCommon(ctx context.Context, op string) common {
	c := common{Op: op}
	if end, ok := ctx.Deadline(); ok {
		c.DeadlineMS = max(1, time.Until(end).Milliseconds())
	}
	return c
}

// ask sends one request and gives the frames of its answer to a.
func (c *Client) ask(ctx context.Context, p peer.ID, op string, query any, a answer) error {
	payload, err := encode(query)
	if err != nil {
		return err
	}
	start := time.Now()
	err = c.exchange(ctx, p, payload, a)
	c.metrics.latency.WithLabelValues("client", op).Observe(time.Since(start).Seconds())
	c.metrics.outcomes.WithLabelValues("client", op, status.Of(err).String()).Inc()
	if err == nil {
		return nil
	}
	var own *sinkError
	if errors.As(err, &own) {
		return own
	}
	return fmt.Errorf("object: %s from %s: %w", op, p, err)
}

// exchange runs the request on a pooled stream, and once more on a new one when
// the pooled one proves dead before any byte of the answer: the peer may have
// closed it while nobody looked.
func (c *Client) exchange(ctx context.Context, p peer.ID, payload []byte, a answer) error {
	release, err := c.pool.enter(ctx, p)
	if err != nil {
		return ctxError(ctx, err)
	}
	defer release()
	if st := c.pool.reuse(p); st != nil {
		err := c.run(ctx, st, payload, a)
		if err == nil || ctx.Err() != nil || st.got > 0 || status.Of(err) == status.Timeout {
			return err
		}
	}
	st, err := c.pool.open(ctx, p)
	if err != nil {
		return ctxError(ctx, err)
	}
	return c.run(ctx, st, payload, a)
}

// run runs the request on st and gives st back to the pool, or resets it when
// the answer did not come to its end.
func (c *Client) run(ctx context.Context, st *clientStream, payload []byte, a answer) error {
	stop := resetWhenDone(ctx, st.Stream, codeCanceled)
	returned := false
	defer func() {
		if !returned { // the sink panicked
			stop()
			c.pool.drop(st, codeInternal)
		}
	}()
	done, err := st.exchange(ctx, payload, c.maxFrame(st.Conn()), a)
	returned = true
	switch reset := stop(); {
	case done && !reset:
		c.pool.put(st)
		return err
	case done:
		c.pool.drop(st, codeCanceled)
		return err
	}
	return c.failed(ctx, st, err)
}

// failed resets st with a code for err and returns err with its outcome.
func (c *Client) failed(ctx context.Context, st *clientStream, err error) error {
	var own *sinkError
	var bad *oap.DecodeError
	code := codeUpstream
	switch o := status.Of(err); {
	case errors.As(err, &own):
		code = codeCanceled
	case ctx.Err() != nil:
		code, err = codeCanceled, ctxError(ctx, err)
	case st.memory.Evicted() != nil:
		code, err = codeCanceled, st.memory.Evicted()
	case errors.As(err, &bad):
		c.metrics.rejected.WithLabelValues(bad.Reason.String()).Inc()
		code = network.StreamErrorCode(bad.StreamErrorCode())
		err = status.Errorf(status.Upstream, "object: the peer's frame is refused: %w", err)
	case o == status.BodyCap, o == status.Busy: // not wanted, or no bytes for it here
		code = codeCanceled
	case o == status.Corrupt:
		code = codeCorrupt
	case o == status.Timeout:
		c.metrics.timeouts.WithLabelValues("ask").Inc()
		code = codeTimeout
	case o == status.Internal: // the transport's own
		err = broken(err)
	}
	c.pool.drop(st, code)
	return err
}

// broken is the transport's error with the outcome that a peer's reset means.
func broken(err error) error {
	var reset *network.StreamError
	if errors.As(err, &reset) && reset.Remote {
		switch reset.ErrorCode {
		case network.StreamResourceLimitExceeded, network.StreamRateLimited:
			return status.Errorf(status.Busy, "object: the peer takes no more streams: %w", err)
		case network.StreamShutdown:
			return status.Errorf(status.Draining, "object: the peer is stopping: %w", err)
		}
	}
	return status.Errorf(status.Upstream, "object: the stream broke: %w", err)
}
