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

	"allium/gateway/certs"
	"allium/gateway/exchange"
	"allium/gateway/hosts"
	"allium/gateway/policy"
	"allium/gateway/policy/audit"
	"allium/gateway/server/conns"
	"allium/internal/env"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Deps are the parts of the node that a Server uses. Table, Bodies, Guard and Log are required.
type Deps struct {
	env.Env

	Table        []exchange.Endpoint
	Bodies       *exchange.Bodies
	Guard        *exchange.Guard
	Hosts        *hosts.Finder       // finds websites by hosts; nil: label hosts of localhost alone
	Capabilities policy.Capabilities // nil: mutations over TCP are refused
	Audit        policy.Audit        // nil: nothing is recorded
	Socket       string              // path of the Unix socket; empty: none
	Certs        certs.Node          // what the certificates of the public listener need of the node

	Upload *limits.Bandwidth // bounds the bytes of content sent per second; nil: no bound
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
	live     atomic.Pointer[live]
	inflight latch.Latch        // admitted requests; closed by Drain
	handlers latch.Latch        // all requests, those of exempt routes too
	certs    certs.Source       // nil: no TLS
	routers  [roles + 1]*router // of the roles, and of websites
	addrs    atomic.Pointer[Addrs]
}

// New returns a Server that does not listen yet.
func New(cfg Config, admin AdminConfig, d Deps, p Params) (*Server, error) {
	d.Env.SetDefaults()
	s := &Server{cfg: cfg, admin: admin, deps: d, params: p}
	s.live.Store(newLive(cfg))
	var err error
	s.certs, err = certs.New(cfg.TLS, certs.Deps{Env: d.Env, Node: d.Certs})
	if err != nil {
		return nil, err
	}
	s.routers[Public] = newRouter(d.Table, exchange.OnPublic)
	s.routers[Admin] = newRouter(d.Table, exchange.OnAdmin)
	s.routers[Socket] = s.routers[Admin]
	s.routers[Redirect] = newRouter(s.redirectRoutes(), onRedirect)
	s.routers[roles] = newRouter(d.Table, exchange.OnSites)
	s.metrics = newMetrics(d.Metrics, s.routers[:])
	s.bounds = newBounds(cfg, admin, p, d.Limits,
		func() { s.metrics.rejected.WithLabelValues("transfer_evicted").Inc() })
	return s, nil
}

// Handler returns the handler of a listener with that role, for callers that accept
// connections themselves.
func (s *Server) Handler(of Role) http.Handler { return s.newListener(of, nil) }

// InFlight returns the number of admitted requests in flight.
func (s *Server) InFlight() int { return s.inflight.Inside() }

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.inflight.Closed() }

// Run listens until ctx is done, and calls ready when the listeners are open. At the end it
// drains for Params.Drain unless Drain was called before, then aborts the remaining requests
// and closes every connection. It returns nil when every goroutine has returned. It returns an
// error if a listener cannot be opened or fails.
func (s *Server) Run(ctx context.Context, ready func()) error {
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	// Requests outlive ctx until the drain ends.
	requests, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	var serving, open sync.WaitGroup
	upkeep, rest := context.WithCancel(ctx)
	defer rest()
	if s.certs != nil {
		serving.Go(func() { s.certs.Run(upkeep) })
	}
	for _, l := range listeners {
		l.http = s.newHTTPServer(requests, l, &open)
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
			_ = s.Drain(drain) // the remaining requests are aborted below
			cancel()
		}
	case err = <-failed:
		err = fmt.Errorf("accept connections: %w", err)
	}

	abort(errDraining())
	s.bounds.halfClosed.End()
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(requests), s.params.Abort)
	defer cancel()
	for _, l := range listeners {
		if l.http.Shutdown(shutdown) != nil {
			_ = l.http.Close()
		}
	}
	rest()
	serving.Wait()
	open.Wait()
	s.handlers.CloseAndWait() // HTTP/2 runs handlers in goroutines of their own
	return err
}

func errDraining() error {
	return status.Errorf(status.Draining, "the node is shutting down. Ask another node, or try again when it is back")
}

// serve accepts connections until the server is shut down.
func (l *listener) serve() error {
	if l.tls != nil {
		return l.http.ServeTLS(l.conns, "", "")
	}
	return l.http.Serve(l.conns)
}

// newHTTPServer returns the server of one listener. It counts every connection in open until
// the connection's goroutine ends.
func (s *Server) newHTTPServer(requests context.Context, l *listener, open *sync.WaitGroup) *http.Server {
	var handler http.Handler = l
	if s.params.Wrap != nil {
		handler = s.params.Wrap(l.role, l)
	}
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // the router answers OPTIONS *
		ReadHeaderTimeout:            s.cfg.HeaderTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		MaxHeaderBytes:               int(s.cfg.HeaderBytes),
		ErrorLog:                     slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return requests },
		ConnContext:                  conns.WithConn,
		TLSConfig:                    l.tls,
		Protocols:                    l.protocols(),
		HTTP2:                        s.http2Config(),
		ConnState: func(c net.Conn, st http.ConnState) {
			switch st {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.metrics.handshakeFailed(c)
				open.Done()
			}
		},
	}
}

// Drain stops admitting requests. From now on every route that is not Exempt answers 503
// draining, on new and old connections, and requests that wait for the rate end with it. Drain
// returns nil when the last request in flight has ended, or an error when ctx ends. A stream of
// events that does not end within Params.EventsEnd is cut. Drain does not close the listeners; Run
// does that at its end. It may be called again.
func (s *Server) Drain(ctx context.Context) error {
	s.inflight.Close()
	s.bounds.clients.StopWaiting()
	soon, cancel := context.WithTimeout(ctx, s.params.EventsEnd)
	left := s.inflight.Drain(soon)
	cancel()
	if left > 0 && ctx.Err() == nil {
		s.bounds.events.cut()
	}
	if left := s.inflight.Drain(ctx); left > 0 {
		return status.Errorf(status.Timeout, "wait for %d requests in flight: %w", left, context.Cause(ctx))
	}
	return nil
}

// refusedUser records that a process of another user connected to the socket.
func (s *Server) refusedUser(err error) {
	if s.deps.Audit != nil {
		s.deps.Audit.Refused(audit.Event{Route: "socket", Outcome: status.Of(err).String(), Detail: err.Error()})
	}
}

// live holds values of the configuration that a request reads once, because Reconfigure may replace them.
type live struct {
	proxies proxies
	prefix  string   // gateway.prefix
	origins []string // gateway.cors_origins
}

// newLive reads a valid configuration.
func newLive(cfg Config) *live {
	l := &live{origins: cfg.CORSOrigins}
	l.proxies, _ = parseProxies(cfg.TrustedProxies)
	l.prefix, _ = parsePrefix(cfg.Prefix)
	return l
}

// Reconfigure applies the hot fields of a valid configuration at once. Requests that have begun keep what they were
// admitted with, and connections and transfers beyond a bound that shrank stay until they end.
func (s *Server) Reconfigure(cfg Config) {
	s.live.Store(newLive(cfg))
	s.deps.Bodies.SetMinRate(cfg.MinRate)
	if f, ok := s.certs.(interface{ Reconfigure(certs.Config) }); ok {
		f.Reconfigure(cfg.TLS)
	}
	b := &s.bounds
	b.requests.Resize(cfg.Inflight)
	b.uploads.Resize(cfg.Uploads)
	b.transfers.Resize(cfg.Transfers)
	b.clients.Set(clientRate(cfg))
	for _, role := range []Role{Public, Redirect} {
		if at := b.conns[role]; at.All != nil {
			at.All.Resize(cfg.Conns)
			at.PerClient.Resize(cfg.ConnsPerIP)
		}
	}
}

// clientRate returns the rate of requests, and the bounds of each client.
func clientRate(cfg Config) limits.FairRateConfig {
	return limits.FairRateConfig{PerSecond: cfg.Rate, Burst: cfg.Burst, Each: cfg.InflightPerIP, Wait: cfg.RateWait}
}
