package object

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/env"
	"allium/internal/inbound"
	"allium/internal/limits"
	"allium/internal/tracing"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Opener is the part of a libp2p host that a [Client] uses.
type Opener interface {
	NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error)
}

// ClientDeps are the dependencies of a [Client]. Host is required.
type ClientDeps struct {
	env.Env

	Host Opener
	// MaxFrame returns the max_frame in bytes that was negotiated on a connection. If
	// it is nil, oap.MaxFrame applies.
	MaxFrame func(network.Conn) uint32

	Hash    *b3.HashQueue   // limits the hashing of groups; nil: no limit
	Inbound *inbound.Memory // limits the bytes of incomplete frames; nil: no limit
	Codec   *oap.Codec      // of compressed frames, shared by the process; nil: the client makes its own

	// Download bounds the bytes of items per second. Requests then wait until few enough run, because
	// peers end the streams that are read slowly. nil: no bound.
	Download *limits.Bandwidth
	// Upload bounds the bytes of items per second that puts send. nil: no bound.
	Upload *limits.Bandwidth
	// Near reports whether a peer is in the local network, as far as that is known before there is a
	// stream. nil: no peer is.
	Near func(peer.ID) bool
}

// Client requests objects from peers. It is safe for concurrent use.
type Client struct {
	cfg      Config
	hash     *b3.HashQueue     // nil: no limit on hashing
	download *limits.Bandwidth // nil: no bound
	upload   *limits.Bandwidth // nil: no bound
	near     func(peer.ID) bool
	maxFrame func(network.Conn) uint32
	metrics  *metrics
	pool     *pool
	tracer   *tracing.Tracer
}

// Sink receives the answer to a get. For each object, in request order, the client
// calls Begin, then Item for each item of the walk of OAP1.md §9, then End. For a
// missing object it calls only End. All calls come from the goroutine that called
// Get. An error of the Sink aborts the request, and Get returns that error; the
// client then makes no more calls.
//
// A Sink that blocks also blocks the stream. When the stream's window is full, the
// peer gives up after its write timeout (5 s). If the peer has nothing more to
// send, it gives up after its idle timeout (30 s). To read an object slowly,
// request it in ranges.
type Sink interface {
	// Begin starts object i of the request. size is in bytes; it is a claim until
	// SizeProved of an item reports true.
	Begin(i int, size int64) error
	// Item receives a verified parent or group. The items of a size proof come
	// first, and the walk of the ranges may repeat them. The data of p is valid only
	// during the call.
	Item(i int, p b3.Proved) error
	// End ends object i. A nil err means that Item received every item of the
	// ranges. Otherwise err says why not, such as not_found, gone or corrupt.
	End(i int, err error) error
}

// GetRequest is a request for objects.
type GetRequest struct {
	Objs      []b3.Root  // 1 to MaxGet
	Ranges    []b3.Range // only with one object; none: the whole object
	SizeProof bool       // whether to prove the size first
	MaxSize   int64      // reject an object that claims more bytes (body_cap); 0: no limit

	// Waiting runs wait, which waits for the download rate of this client, so that a caller that
	// measures the peer's progress can leave that time out. It returns wait's error. nil: the
	// client runs wait itself.
	Waiting func(wait func() error) error
}

// wait runs f, which waits for the client's rate.
func (r *GetRequest) wait(f func() error) error {
	if r.Waiting == nil {
		return f()
	}
	return r.Waiting(f)
}

// NewClient checks cfg and deps and returns a Client. The caller must call Close.
func NewClient(cfg Config, deps ClientDeps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Host == nil {
		return nil, errors.New("a client needs a host")
	}
	if deps.Codec == nil {
		deps.Codec = oap.NewCodec(runtime.GOMAXPROCS(0))
	}
	if deps.MaxFrame == nil {
		deps.MaxFrame = func(network.Conn) uint32 { return oap.MaxFrame }
	}
	if deps.Near == nil {
		deps.Near = func(peer.ID) bool { return false }
	}
	m := newMetrics(deps.Metrics)
	return &Client{
		cfg: cfg, hash: deps.Hash, download: deps.Download, upload: deps.Upload, near: deps.Near,
		maxFrame: deps.MaxFrame, metrics: m, pool: newPool(cfg, deps, m), tracer: deps.Tracer,
	}, nil
}

// Reconfigure changes MinRate, of the streams that are opened from now on.
func (c *Client) Reconfigure(cfg Config) { c.pool.cfg.Store(&cfg) }

// Close closes the idle streams; new requests fail with draining. Requests in flight
// continue until they are done or their context ends. Close may be called more than
// once.
func (c *Client) Close() error {
	c.pool.close()
	return nil
}

// Get requests objects from p and passes the verified items to sink. It returns nil
// when every object had its End. Otherwise the objects without End have no answer,
// and the error is one of these:
//
//   - corrupt: bytes do not match the address;
//   - upstream: the answer breaks the protocol, or the stream broke;
//   - timeout: no byte for ReadTimeout, a frame slower than MinRate, or the deadline
//     of ctx;
//   - busy, draining and similar outcomes: the peer refused the request;
//   - body_cap: an object claims more than MaxSize bytes;
//   - bad_request, bad_range: req is invalid;
//   - the sink's own error, unchanged.
//
// The sink has received all items that were verified before the error.
func (c *Client) Get(ctx context.Context, p peer.ID, req GetRequest, sink Sink) error {
	switch n := len(req.Objs); {
	case n == 0 || n > MaxGet:
		return status.Errorf(status.BadRequest, "get of %d objects, want 1 to %d", n, MaxGet)
	case len(req.Ranges) > 0 && n > 1:
		return status.Errorf(status.BadRequest, "ranges with %d objects, want one", n)
	}
	if err := checkRanges(req.Ranges); err != nil {
		return err
	}
	var leave func()
	err := req.wait(func() (err error) { // before the stream, which the peer would close while it is idle
		leave, err = c.download.Enter(ctx, c.near(p))
		return err
	})
	if err != nil {
		return fmt.Errorf("get from %s: %w", p, ctxError(ctx, err))
	}
	defer leave()
	ctx, span := tracing.Child(ctx, "get")
	span.Number("allium.objects", int64(len(req.Objs)))
	w := wireGet{common: newCommon(ctx, opGet), Objs: req.Objs, SizeProof: req.SizeProof}
	for _, r := range req.Ranges {
		w.Ranges = append(w.Ranges, [2]int64{r.Start, r.End})
	}
	a := &getAnswer{req: &req, sink: sink, hash: c.hash, count: func(n int) { c.metrics.bytesIn.Add(float64(n)) }}
	err = a.endObject(c.query(ctx, p, opGet, w, a))
	span.End(err)
	var own *sinkError
	if errors.As(err, &own) {
		return own.err
	}
	return err
}

// Have asks p which of objs it has, with MaxHave objects in each request. The answer
// is in the order of objs. It is a claim of the peer.
func (c *Client) Have(ctx context.Context, p peer.ID, objs []b3.Root) (_ []b3.Presence, err error) {
	ctx, span := tracing.Child(ctx, "have")
	defer func() { span.End(err) }()
	present := make([]b3.Presence, len(objs))
	for at := 0; at < len(objs); at += MaxHave {
		to := min(at+MaxHave, len(objs))
		w := wireHave{common: newCommon(ctx, opHave), Objs: objs[at:to]}
		if err := c.query(ctx, p, opHave, w, &haveAnswer{present: present[at:to]}); err != nil {
			return nil, err
		}
	}
	return present, nil
}

// Held asks p how much it has of root and, if it is a part, which of the groups [from, to), at most MaxGroups: a bit
// for each, the lowest first; what is not there it does not have. A peer that does not know the question answers
// bad_request. The answer is a claim of the peer.
func (c *Client) Held(
	ctx context.Context, p peer.ID, root b3.Root, from, to int64,
) (present b3.Presence, groups []byte, err error) {
	ctx, span := tracing.Child(ctx, "have")
	defer func() { span.End(err) }()
	w := wireHave{common: newCommon(ctx, opHave), Objs: []b3.Root{root}, Groups: &[2]int64{from, to}}
	a := &haveAnswer{present: make([]b3.Presence, 1), most: int(to-from+7) / 8}
	err = c.query(ctx, p, opHave, w, a)
	return a.present[0], a.groups, err
}

func newCommon(ctx context.Context, op string) common {
	c := common{Op: op, Traceparent: tracing.Traceparent(ctx)}
	if end, ok := ctx.Deadline(); ok {
		c.DeadlineMS = max(1, time.Until(end).Milliseconds())
	}
	return c
}

// query sends a request of one frame and passes the frames of the answer to a.
func (c *Client) query(ctx context.Context, p peer.ID, op string, query any, a answer) error {
	payload, err := encode(query)
	if err != nil {
		return err
	}
	return c.ask(ctx, p, op, func(st *clientStream) (bool, error) {
		if get, ok := a.(*getAnswer); ok {
			pass := st.bandwidth(ctx, c.download)
			get.wait = func(n int) error { return get.req.wait(func() error { return pass(n) }) }
		}
		return st.exchange(ctx, payload, c.maxFrame(st.Conn()), a)
	})
}

// conversation sends one request on a stream and handles its answer. done reports whether
// the stream can serve another request.
type conversation func(st *clientStream) (done bool, err error)

// ask runs one request and counts it.
func (c *Client) ask(ctx context.Context, p peer.ID, op string, talk conversation) error {
	start := time.Now()
	err := c.exchange(ctx, p, talk)
	c.metrics.latency.WithLabelValues("client", op).Observe(time.Since(start).Seconds())
	c.metrics.outcomes.WithLabelValues("client", op, status.Of(err).String()).Inc()
	if err == nil {
		return nil
	}
	var own *sinkError
	if errors.As(err, &own) {
		return own
	}
	return fmt.Errorf("%s from %s: %w", op, p, err)
}

// exchange runs the request on an idle stream. If that stream fails before the first
// byte of an answer, the peer may have closed it earlier; exchange then tries once
// more on a new stream.
func (c *Client) exchange(ctx context.Context, p peer.ID, talk conversation) error {
	release, err := c.pool.enter(ctx, p)
	if err != nil {
		return ctxError(ctx, err)
	}
	defer release()
	if st := c.pool.reuse(p); st != nil {
		err := c.run(ctx, st, talk)
		if err == nil || ctx.Err() != nil || st.bytesRead > 0 || status.Of(err) == status.Timeout {
			return err
		}
	}
	st, err := c.pool.open(ctx, p)
	if err != nil {
		return ctxError(ctx, err)
	}
	return c.run(ctx, st, talk)
}

// run runs the request on st. It returns st to the pool, or resets it if the answer
// is incomplete.
func (c *Client) run(ctx context.Context, st *clientStream, talk conversation) error {
	stop := resetWhenDone(ctx, st.Stream, codeCanceled)
	returned := false
	defer func() {
		if !returned { // the sink panicked
			stop()
			c.pool.drop(st, codeInternal)
		}
	}()
	done, err := talk(st)
	returned = true
	switch reset := stop(); {
	case done && !reset:
		c.pool.put(st)
		return err
	case done:
		c.pool.drop(st, codeCanceled)
		return err
	case err == nil: // the answer is complete, and the stream is not
		c.pool.drop(st, codeCanceled)
		return nil
	}
	return c.failed(ctx, st, err)
}

// failed resets st with the code for err and returns err with an outcome.
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
		err = status.Errorf(status.Upstream, "the peer sent a bad frame: %w", err)
	case o == status.BodyCap, o == status.Busy: // the object is too large, or this node has no memory for the frame
		code = codeCanceled
	case o == status.Corrupt:
		code = codeCorrupt
	case o == status.Timeout:
		c.metrics.timeouts.WithLabelValues(env.TimeoutObjectAsk).Inc()
		code = codeTimeout
	case o == status.Internal, o == status.TransportDown: // an error of the transport
		err = transportError(err)
	}
	c.pool.drop(st, code)
	return err
}

// transportError returns an error of the transport with its outcome, which depends
// on the code of the peer's reset.
func transportError(err error) error {
	var reset *network.StreamError
	if errors.As(err, &reset) && reset.Remote {
		switch reset.ErrorCode {
		case network.StreamResourceLimitExceeded, network.StreamRateLimited:
			return status.Errorf(status.Busy, "the peer accepts no more streams: %w", err)
		case network.StreamShutdown:
			return status.Errorf(status.Draining, "the peer is stopping: %w", err)
		}
	}
	return status.Errorf(status.Upstream, "the stream broke: %w", err)
}
