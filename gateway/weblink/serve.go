package weblink

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/gateway/server"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
)

// AnyAddress listens on a free port of every address of this machine.
const AnyAddress = ":0"

// maxConns bounds the connections of a link's own listener, and its answers in progress.
const maxConns = 256

// Serve opens a link with its own listener, and calls ready with the places where it can be opened. It calls event for
// what happens. It returns nil when ctx ends, the Set is closed, or nobody uses the link and it has expired or its last
// download is whole. An error of ready or event ends the link too.
func (s *Set) Serve(ctx context.Context, o Options, listen string, ready func([]Place) error, event func(Event) error) (
	err error,
) {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return status.Errorf(status.BadRequest, "cannot listen on %q: %w. "+
			"Give host:port, such as 127.0.0.1:0 for this machine alone, or :0 for every address", listen, err)
	}
	l, err := s.open(o)
	if err != nil {
		return err
	}
	defer s.end(l)
	own, err := s.newServer(listen)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	listening := make(chan struct{})
	var serving sync.WaitGroup
	var failed error
	serving.Go(func() {
		defer cancel()
		failed = own.Run(ctx, func() { close(listening) })
	})
	defer func() {
		cancel()
		serving.Wait()
		if err == nil {
			err = failed
		}
	}()
	select {
	case <-listening:
	case <-ctx.Done():
		return nil // failed says why
	}
	if err := ready(s.placesOf(own.Addrs().Gateway, l.path(), listen)); err != nil {
		return err
	}
	return l.follow(ctx, event)
}

// follow calls event for what happens to the link until it ends.
func (l *link) follow(ctx context.Context, event func(Event) error) error {
	var expired <-chan time.Time
	if !l.NotAfter.IsZero() {
		t := time.NewTimer(l.NotAfter.Sub(l.set.deps.Now()))
		defer t.Stop()
		expired = t.C
	}
	for {
		all, ended := l.take(l.set.deps.Now())
		for _, e := range all {
			if err := event(e); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-expired:
		case <-l.changed:
		}
	}
}

// placesOf returns where a link can be opened, the places with the longest reach first. base is the URL of the link's
// listener.
func (s *Set) placesOf(base, path, listen string) []Place {
	var own netip.AddrPort
	if u, err := url.Parse(base); err == nil {
		own, _ = netip.ParseAddrPort(u.Host)
	}
	if everywhere(listen) {
		own = netip.AddrPortFrom(netip.IPv4Unspecified(), own.Port())
	}
	addrs, preferred := machineAddrs()
	all := places(own, addrs, preferred, path)
	all = append(all, onGateway(s.deps.Gateway(), path)...)
	sortPlaces(all)
	return all
}

// everywhere reports whether a listener takes connections at every address of this machine.
func everywhere(listen string) bool {
	host, _, _ := net.SplitHostPort(listen)
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func trimTLS(url string) string { return strings.TrimPrefix(url, "https://") }

// newServer returns a server of links and of the icon of their pages. Its figures are not those of the node's gateway.
func (s *Set) newServer(listen string) (*server.Server, error) {
	e := env.Env{Log: s.deps.Log, Cores: s.deps.Cores, Now: s.deps.Now, Limits: limits.NewRegistry(nil)}
	e.Metrics = prometheus.NewRegistry()
	cfg, admin := server.DefaultConfig(), server.DefaultAdminConfig()
	cfg.Listen, admin.Listen = listen, ""
	cfg.Conns, cfg.Transfers = maxConns, maxConns
	return server.New(cfg, admin, server.Deps{
		Env: e, Table: append(s.Endpoints(), asset.IconEndpoint()), Guard: exchange.NewGuard(e.Log, e.Metrics),
		Bodies: exchange.NewBodies(exchange.DefaultBodyConfig(), cfg.MinRate, e.Limits), Upload: s.deps.Upload,
	}, server.DefaultParams())
}
