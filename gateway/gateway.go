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

	"allium/gateway/admin"
	"allium/gateway/api"
	"allium/gateway/certs"
	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/openapi"
	"allium/gateway/upload"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Gateway serves HTTP. Its methods may be called from any goroutine.
type Gateway struct {
	cfg   Config
	admin AdminConfig
	deps  Deps
	log   *slog.Logger
	m     *metrics

	inflight  *limits.Gate // public
	clients   *clients     // public
	transfers *transfers   // public, but for listings
	listings  *transfers   // public
	proxies   proxies
	api       *limits.Gate
	uploads   *limits.Gate // public, in place of inflight
	lingers   *limits.Gate
	conns     connLimits
	flight    latch.Latch  // requests being answered
	handlers  latch.Latch  // all of them, also of what waits for nothing
	certs     certs.Source // nil: http

	httpsPort int // that redirects lead to; set before anything is served
	handling  handlers
	bodies    *exchange.Bodies
	guard     *exchange.Guard

	publicRouter, adminRouter, redirectRouter *router

	watcher func(*side) http.Handler // tests see there what is answered; nil: nobody does
	grace   grace

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
	if d.Denylist == nil {
		d.Denylist = exchange.NothingDenied{}
	}
	g := &Gateway{cfg: cfg, admin: admin, deps: d, log: d.Log, grace: defaultGrace()}
	if err := g.compose(); err != nil {
		return nil, err
	}
	g.m = newMetrics(d.Metrics, g.publicRouter, g.adminRouter, g.redirectRouter)
	var err error
	if g.certs, err = certs.New(cfg.TLS, certs.Deps{ACMEDir: d.ACMEDir, Now: d.Now, Log: d.Log, Metrics: d.Metrics}); err != nil {
		return nil, err
	}
	g.inflight = d.Limits.NewGate(limits.Spec{
		Name: "gateway.inflight", Path: "public listener → handlers", Policy: "reject: 429 busy",
	}, cfg.Inflight, 0)
	g.clients = newClients(cfg, d.Limits)
	evicted := func() { g.m.rejected.WithLabelValues("transfer_evicted").Inc() }
	g.transfers = newTransfers(d.Limits, "gateway.transfers", cfg.Transfers, evicted)
	g.listings = newTransfers(d.Limits, "gateway.listings", listings, evicted)
	g.proxies, _ = parseProxies(cfg.TrustedProxies) // Validate did
	g.api = d.Limits.NewGate(limits.Spec{
		Name: "admin.inflight", Path: "admin listener and socket → handlers", Policy: "reject: 429 busy",
	}, admin.Inflight, 0)
	g.uploads = d.Limits.NewGate(limits.Spec{
		Name: "gateway.uploads", Path: "public listener → uploads", Policy: "reject: 429 busy",
	}, cfg.Uploads, 0)
	g.lingers = d.Limits.NewGate(limits.Spec{
		Name: "gateway.lingering", Path: "HTTP/2 uploads that are refused → streams still open", Policy: "reset at once",
	}, leftStreams, 0)
	g.conns = newConnLimits(cfg, admin, d.Limits)
	return g, nil
}

// compose makes the handlers, and the routers of the listeners from their routes.
func (g *Gateway) compose() (err error) {
	cfg, d := g.cfg, g.deps
	g.guard = exchange.NewGuard(d.Log, d.Metrics)
	g.bodies = exchange.NewBodies(exchange.BodyConfig{
		ReadTimeout: cfg.ReadTimeout, MinRate: cfg.MinRate,
		Decoders: cfg.Decoders, DecompressRatio: cfg.DecompressRatio, DecompressBytes: cfg.DecompressBytes, BodyBytes: cfg.BodyBytes,
	}, d.Limits)
	h := handlers{
		uploads: upload.New(d.Uploads, d.Denylist, g.bodies),
		admin: admin.New(admin.Deps{
			Node: d.Node, Ready: g.readiness, Version: d.Version, Denylist: d.Denylist, Bodies: g.bodies, Guard: g.guard,
			Gatherer: d.Gatherer, Limits: d.Limits,
		}),
		openapi: &openapi.Handlers{},
	}
	h.content, err = content.New(content.Config{
		FirstByteTimeout: cfg.FirstByteTimeout, MultiRange: cfg.MultiRange,
		Misses: cfg.Misses, MissesWaiting: cfg.MissesWaiting, MissesPerIP: cfg.MissesPerIP,
	}, content.Deps{
		Objects: d.Objects, Denylist: d.Denylist, Version: d.Version.Version, Metrics: d.Metrics, Limits: d.Limits,
		Ready: func() api.Readiness { page, _ := g.readiness(); return page },
	})
	if err != nil {
		return err
	}
	table := h.table()
	h.openapi.Describe(table)
	g.handling = h
	g.publicRouter, g.adminRouter = newRouter(table, exchange.OnPublic), newRouter(table, exchange.OnAdmin)
	g.redirectRouter = newRouter(g.redirectRoutes(), onRedirect)
	return nil
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
		serving.Go(func() { g.certs.Run(upkeep) })
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
		if !g.flight.Closed() {
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
	g.handlers.Wait() // HTTP/2 runs them beside the connection's goroutine
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
	if left := g.flight.Drain(ctx); left > 0 {
		return status.Errorf(status.Timeout, "gateway: %d requests are still in flight: %w", left, context.Cause(ctx))
	}
	return nil
}
