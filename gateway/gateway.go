package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"allium/protocols/admission"
	"allium/protocols/status"
)

// Gateway serves HTTP. Its methods may be called from any goroutine.
type Gateway struct {
	cfg   Config
	admin AdminConfig
	deps  Deps
	log   *slog.Logger
	m     *metrics

	inflight *admission.Gate // public
	clients  *clients        // public
	proxies  proxies
	misses   misses // public
	api      *admission.Gate
	uploads  *admission.Gate // public, in place of inflight
	decoding *admission.Gate
	lingers  *admission.Gate
	conns    connLimits
	kinds    *kinds
	flight   flight
	handlers flight       // all of them, also of what waits for nothing
	certs    certificates // nil: http

	httpsPort int // that redirects lead to; set before anything is served
	openapi   map[listeners]func() served
	once      *once
	watcher   func(*side) http.Handler // tests see there what is answered; nil: nobody does
	grace     grace

	mu    sync.Mutex
	addrs Addrs
}

// Addrs is where a Gateway listens; a listener it does not have is empty.
type Addrs struct {
	Gateway  string // base URL, without a final slash
	Local    string // the same by address, where Gateway has the name of a certificate; else empty
	Redirect string // base URL, without a final slash
	Admin    string // base URL, without a final slash
	Socket   string // path of the Unix socket
}

// New returns a Gateway that does not listen yet.
func New(cfg Config, admin AdminConfig, d Deps) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := admin.Validate(); err != nil {
		return nil, err
	}
	if d.Objects == nil || d.Node == nil || d.Ready == nil {
		return nil, errors.New("gateway: Deps.Objects, Node and Ready are needed")
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, admin: admin, deps: d, log: d.Log, m: newMetrics(d.Metrics), grace: defaultGrace()}
	g.flight.idle, g.handlers.idle = make(chan struct{}), make(chan struct{})
	var err error
	if g.certs, err = newCertificates(cfg.TLS, d.ACMEDir, d.Log, g.m); err != nil {
		return nil, err
	}
	g.once = newOnce(d.Limits)
	g.openapi = map[listeners]func() served{onPublic: newServed(onPublic), onAdmin: newServed(onEvery)}
	g.inflight = d.Limits.NewGate(admission.Spec{
		Name: "gateway.inflight", Path: "public listener → handlers", Policy: "reject: 429 busy",
	}, cfg.Inflight, 0)
	g.clients = newClients(cfg, d.Limits)
	g.misses = newMisses(cfg, d.Limits)
	g.proxies, _ = parseProxies(cfg.TrustedProxies) // Validate did
	g.api = d.Limits.NewGate(admission.Spec{
		Name: "admin.inflight", Path: "admin listener and socket → handlers", Policy: "reject: 429 busy",
	}, admin.Inflight, 0)
	g.uploads = d.Limits.NewGate(admission.Spec{
		Name: "gateway.uploads", Path: "public listener → uploads", Policy: "reject: 429 busy",
	}, cfg.Uploads, 0)
	g.decoding = d.Limits.NewGate(admission.Spec{
		Name: "gateway.decoders", Path: "compressed uploads → decoders", Policy: "reject: 429 busy",
	}, cfg.Decoders, 0)
	g.lingers = d.Limits.NewGate(admission.Spec{
		Name: "gateway.lingering", Path: "HTTP/2 uploads that are refused → streams still open", Policy: "reset at once",
	}, leftStreams, 0)
	g.conns = newConnLimits(cfg, admin, d.Limits)
	if g.kinds, err = newKinds(d.Limits); err != nil {
		return nil, err
	}
	return g, nil
}

// Addrs is where the Gateway listens, from when Run called ready.
func (g *Gateway) Addrs() Addrs {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addrs
}

// grace is how long requests have at the end of Run.
type grace struct {
	// drain is how long Run drains when nobody called Drain before.
	drain time.Duration
	// abort is how long aborted requests have to end their answers themselves
	// before their connections are closed under them: well within the second that
	// SPEC §10 gives the whole node.
	abort time.Duration
}

func defaultGrace() grace { return grace{drain: 3 * time.Second, abort: 250 * time.Millisecond} }

// Run listens until ctx is done. Unless Drain was called before, it first lets
// requests in flight finish for up to 3 s; then it closes every connection. It
// returns nil when every goroutine has returned, and an error that says what
// to do when a listener cannot be opened or fails.
func (g *Gateway) Run(ctx context.Context, ready func()) error {
	sides, err := g.listen(ctx)
	if err != nil {
		return err
	}
	// Requests outlive ctx for as long as the drain lasts.
	requests, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	var serving, conns sync.WaitGroup
	upkeep, rest := context.WithCancel(ctx)
	defer rest()
	if g.certs != nil {
		serving.Go(func() { g.certs.run(upkeep) })
	}
	for _, s := range sides {
		s.server = g.newServer(requests, s, &conns)
		serving.Go(func() {
			if err := s.serve(); !errors.Is(err, http.ErrServerClosed) {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	ready()
	select {
	case <-ctx.Done():
		if !g.flight.draining() {
			drain, cancel := context.WithTimeout(requests, g.grace.drain)
			_ = g.Drain(drain) // what is left is aborted below
			cancel()
		}
	case err = <-failed:
		err = fmt.Errorf("gateway: a listener failed: %w", err)
	}

	abort(status.Errorf(status.Draining, "the node is shutting down; ask again when it is back"))
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(requests), g.grace.abort)
	defer cancel()
	for _, s := range sides {
		if s.server.Shutdown(shutdown) != nil {
			_ = s.server.Close()
		}
	}
	rest()
	serving.Wait()
	conns.Wait()
	<-g.handlers.close() // HTTP/2 runs them beside the connection's goroutine
	return err
}

// serve accepts connections until the server is shut down.
func (s *side) serve() error {
	if s.tls != nil {
		return s.server.ServeTLS(s.listener, "", "")
	}
	return s.server.Serve(s.listener)
}

// newServer serves one side. Every connection is counted in conns until its
// goroutine ends.
func (g *Gateway) newServer(requests context.Context, s *side, conns *sync.WaitGroup) *http.Server {
	var handler http.Handler = s
	if g.watcher != nil {
		handler = g.watcher(s)
	}
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // its answers would pass by ours
		ReadHeaderTimeout:            g.cfg.HeaderTimeout,
		IdleTimeout:                  g.cfg.IdleTimeout,
		MaxHeaderBytes:               int(g.cfg.HeaderBytes),
		ErrorLog:                     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return requests },
		ConnContext:                  withConn,
		TLSConfig:                    s.tls,
		Protocols:                    s.protocols(),
		HTTP2:                        g.http2Config(),
		ConnState: func(c net.Conn, st http.ConnState) {
			switch st {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				g.handshakeFailed(c)
				conns.Done()
			}
		},
	}
}

// Drain stops admitting: from now on everything but the pages that wait for
// nothing is answered 503 draining, on connections new and old. It returns
// when the last request in flight has ended, or with ctx's error. It does not
// close listeners; that is for the end of Run. It may be called again.
func (g *Gateway) Drain(ctx context.Context) error {
	select {
	case <-g.flight.close():
		return nil
	case <-ctx.Done():
		return status.Errorf(status.Timeout, "gateway: %d requests are still in flight: %w", g.flight.count(), context.Cause(ctx))
	}
}

// flight counts the requests being answered and admits none once closed.
type flight struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0
}

// enter counts a request in, or returns false.
func (f *flight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

// leave counts a request out.
func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.settle()
}

// close admits no more; the channel closes when the last request has left.
func (f *flight) close() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.settle()
	}
	return f.idle
}

func (f *flight) settle() {
	if f.closed && f.n == 0 {
		close(f.idle)
	}
}

func (f *flight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *flight) draining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}
