package gateway

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"allium/internal/limits"
	"allium/protocols/status"
)

// listen opens the listeners, all or none.
func (g *Gateway) listen(ctx context.Context) (sides []*side, err error) {
	defer func() {
		if err != nil {
			for _, s := range sides {
				_ = s.listener.Close()
			}
			sides = nil
		}
	}()
	var addrs Addrs
	if g.cfg.Listen != "" {
		l, err := listenTCP(ctx, g.cfg.Listen, "gateway.listen")
		if err != nil {
			return sides, err
		}
		addrs.Gateway = baseURL(l.Addr())
		if g.certs != nil {
			addrs.Gateway, addrs.Local = secureURLs(g.certs, l.Addr())
		}
		sides = append(sides, g.publicSide(g.limitPublic(l, g.conns.public, g.conns.publicPerIP)))
	}
	if g.cfg.TLS.RedirectListen != "" {
		g.httpsPort = cmp.Or(g.cfg.TLS.RedirectPort, portOf(sides[0].listener.Addr()))
		l, err := listenTCP(ctx, g.cfg.TLS.RedirectListen, "gateway.tls.redirect_listen")
		if err != nil {
			return sides, err
		}
		addrs.Redirect = baseURL(l.Addr())
		sides = append(sides, g.redirectSide(g.limitPublic(l, g.conns.redirect, g.conns.redirectPerIP)))
	}
	if g.admin.Listen != "" {
		l, err := listenTCP(ctx, g.admin.Listen, "admin.listen")
		if err != nil {
			return sides, err
		}
		addrs.Admin = baseURL(l.Addr())
		sides = append(sides, g.adminSide(g.limit(l, g.conns.admin), l.Addr()))
	}
	if g.deps.Socket != "" {
		l, err := listenSocket(ctx, g.deps.Socket)
		if err != nil {
			return sides, err
		}
		addrs.Socket = g.deps.Socket
		sides = append(sides, g.socketSide(g.limit(l, g.conns.socket)))
	}
	g.mu.Lock()
	g.addrs = addrs
	g.mu.Unlock()
	return sides, nil
}

// baseURL is where a user of this machine finds a listener: one on every
// address is on loopback too.
func baseURL(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err == nil && ap.Addr().IsUnspecified() {
		a = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port()))
	}
	return "http://" + a.String()
}

func listenTCP(ctx context.Context, addr, key string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, status.Errorf(status.Conflict, "gateway: %s is in use; stop what listens there or set %s to another port (0 is any free one): %w", addr, key, err)
	case errors.Is(err, syscall.EACCES):
		return nil, status.Errorf(status.Forbidden, "gateway: %s is not for this user to open; set %s to a port above 1023: %w", addr, key, err)
	case err != nil:
		return nil, status.Errorf(status.BadRequest, "gateway: cannot listen on %s; set %s to an address of this machine: %w", addr, key, err)
	}
	return l, nil
}

// connLimits bounds the connections of each listener, and of each client where
// those are strangers.
type connLimits struct {
	public, redirect, admin, socket *limits.Gate
	publicPerIP, redirectPerIP      *limits.KeyedGate[netip.Prefix]
}

func newConnLimits(cfg Config, admin AdminConfig, r *limits.Registry) connLimits {
	gate := func(name, from, policy string, n int64) *limits.Gate {
		return r.NewGate(limits.Spec{Name: name, Path: from + " → connections", Policy: policy}, n, 0)
	}
	const closed = "closed at once"
	perIP := func(name, from string) *limits.KeyedGate[netip.Prefix] {
		return limits.NewKeyedGate[netip.Prefix](r, limits.Spec{Name: name, Path: from + " → connections", Policy: closed}, cfg.ConnsPerIP)
	}
	registry := connLimits{
		public: gate("gateway.conns", "public listener", "who has most and waits longest makes room; else closed at once", cfg.Conns),
		admin:  gate("admin.conns", "admin listener", closed, admin.Conns),
		socket: gate("admin.socket_conns", "Unix socket", closed, admin.Conns),

		publicPerIP: perIP("gateway.conns_per_ip", "public listener"),
	}
	if cfg.TLS.RedirectListen != "" {
		registry.redirect = gate("gateway.redirect_conns", "redirect listener", closed, cfg.Conns)
		registry.redirectPerIP = perIP("gateway.redirect_conns_per_ip", "redirect listener")
	}
	return registry
}
