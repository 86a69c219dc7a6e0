package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/audit"
	"allium/gateway/certs"
	"allium/gateway/exchange"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Deps is what a Server works with. Table, Bodies, Guard and Log are needed.
type Deps struct {
	Table        []exchange.Endpoint
	Bodies       *exchange.Bodies
	Guard        *exchange.Guard
	Capabilities exchange.Capabilities // nil: over TCP nothing can be changed
	Audit        exchange.Audit        // nil: nothing is recorded
	Socket       string                // path of the Unix socket; empty: none
	ACMEDir      string                // where ACME keeps its account and certificates; empty: in RAM

	Now     func() time.Time // of certificates; nil: time.Now
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: not registered
	Limits  *limits.Registry      // nil: listed nowhere
}

// Server accepts connections and runs routes. Its methods may be called from any
// goroutine.
type Server struct {
	cfg    Config
	admin  AdminConfig
	deps   Deps
	params Params

	metrics  *metrics
	bounds   bounds
	proxies  proxies
	inflight latch.Latch  // requests being answered
	handlers latch.Latch  // all of them, also of what waits for nothing
	certs    certs.Source // nil: http
	routers  [roles]*router
	addrs    atomic.Pointer[Addrs]
}

// New returns a Server that does not listen yet.
func New(cfg Config, admin AdminConfig, d Deps, p Params) (*Server, error) {
	s := &Server{cfg: cfg, admin: admin, deps: d, params: p}
	s.proxies, _ = parseProxies(cfg.TrustedProxies) // Validate did
	var err error
	if s.certs, err = certs.New(cfg.TLS, certs.Deps{ACMEDir: d.ACMEDir, Now: d.Now, Log: d.Log, Metrics: d.Metrics}); err != nil {
		return nil, err
	}
	s.routers[Public] = newRouter(d.Table, exchange.OnPublic)
	s.routers[Admin] = newRouter(d.Table, exchange.OnAdmin)
	s.routers[Socket] = s.routers[Admin]
	s.routers[Redirect] = newRouter(s.redirectRoutes(), onRedirect)
	s.metrics = newMetrics(d.Metrics, s.routers[:])
	s.bounds = newBounds(cfg, admin, p, d.Limits, func() { s.metrics.rejected.WithLabelValues("transfer_evicted").Inc() })
	return s, nil
}

// Handler returns what answers the requests of a listener of that role, for those
// who bring their own connections.
func (s *Server) Handler(of Role) http.Handler { return s.newListener(of, nil) }

// InFlight returns how many requests are being answered.
func (s *Server) InFlight() int { return s.inflight.Inside() }

// Draining reports whether Drain was called: no request is admitted any more.
func (s *Server) Draining() bool { return s.inflight.Closed() }

// Run listens until ctx is done. Unless Drain was called before, it first lets
// requests in flight finish for as long as Params say; then it closes every
// connection. It returns nil when every goroutine has returned, and an error that
// says what to do when a listener cannot be opened or fails.
func (s *Server) Run(ctx context.Context, ready func()) error {
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	// Requests outlive ctx for as long as the drain lasts.
	requests, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	var serving, conns sync.WaitGroup
	upkeep, rest := context.WithCancel(ctx)
	defer rest()
	if s.certs != nil {
		serving.Go(func() { s.certs.Run(upkeep) })
	}
	for _, l := range listeners {
		l.http = s.newHTTPServer(requests, l, &conns)
		serving.Go(func() {
			if err := l.serve(); !errors.Is(err, http.ErrServerClosed) {
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
		if !s.Draining() {
			drain, cancel := context.WithTimeout(requests, s.params.Drain)
			_ = s.Drain(drain) // what is left is aborted below
			cancel()
		}
	case err = <-failed:
		err = fmt.Errorf("gateway: a listener failed: %w", err)
	}

	abort(errDraining())
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(requests), s.params.Abort)
	defer cancel()
	for _, l := range listeners {
		if l.http.Shutdown(shutdown) != nil {
			_ = l.http.Close()
		}
	}
	rest()
	serving.Wait()
	conns.Wait()
	s.handlers.Wait() // HTTP/2 runs them beside the connection's goroutine
	return err
}

func errDraining() error {
	return status.Errorf(status.Draining, "the node is shutting down; ask again when it is back")
}

// serve accepts connections until the server is shut down.
func (l *listener) serve() error {
	if l.tls != nil {
		return l.http.ServeTLS(l.conns, "", "")
	}
	return l.http.Serve(l.conns)
}

// newHTTPServer serves one listener. Every connection is counted in conns until
// its goroutine ends.
func (s *Server) newHTTPServer(requests context.Context, l *listener, conns *sync.WaitGroup) *http.Server {
	var handler http.Handler = l
	if s.params.Wrap != nil {
		handler = s.params.Wrap(l.role, l)
	}
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // its answers would pass by ours
		ReadHeaderTimeout:            s.cfg.HeaderTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		MaxHeaderBytes:               int(s.cfg.HeaderBytes),
		ErrorLog:                     slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return requests },
		ConnContext:                  withConn,
		TLSConfig:                    l.tls,
		Protocols:                    l.protocols(),
		HTTP2:                        s.http2Config(),
		ConnState: func(c net.Conn, st http.ConnState) {
			switch st {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.handshakeFailed(c)
				conns.Done()
			}
		},
	}
}

// Drain stops admitting: from now on everything but the pages that wait for
// nothing is answered 503 draining, on connections new and old. It returns
// when the last request in flight has ended, or with ctx's error. It does not
// close listeners; that is for the end of Run. It may be called again.
func (s *Server) Drain(ctx context.Context) error {
	if left := s.inflight.Drain(ctx); left > 0 {
		return status.Errorf(status.Timeout, "gateway: %d requests are still in flight: %w", left, context.Cause(ctx))
	}
	return nil
}

// refusedUser records that another user's process connected to the socket.
func (s *Server) refusedUser(err error) {
	if s.deps.Audit != nil {
		s.deps.Audit.Refused(audit.Event{Route: "socket", Outcome: status.Of(err).String(), Detail: err.Error()})
	}
}
