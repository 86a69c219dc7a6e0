package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"allium/protocols/status"
)

// Addrs is where a Server listens; a listener it does not have is empty.
type Addrs struct {
	Gateway  string // base URL, without a final slash
	Local    string // the same by address, where Gateway has the name of a certificate; else empty
	Redirect string // base URL, without a final slash
	Admin    string // base URL, without a final slash
	Socket   string // path of the Unix socket
}

// Addrs returns where the Server listens, from when Run called ready.
func (s *Server) Addrs() Addrs {
	if at := s.addrs.Load(); at != nil {
		return *at
	}
	return Addrs{}
}

// listen opens the listeners, all or none.
func (s *Server) listen(ctx context.Context) (all []*listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.conns.Close()
			}
			all = nil
		}
	}()
	var addrs Addrs
	open := func(role Role, addr, key string) (net.Addr, error) {
		l, err := listenTCP(ctx, addr, key)
		if err != nil {
			return nil, err
		}
		all = append(all, s.newListener(role, l))
		return l.Addr(), nil
	}
	if s.cfg.Listen != "" {
		at, err := open(Public, s.cfg.Listen, "gateway.listen")
		if err != nil {
			return all, err
		}
		addrs.Gateway = baseURL(at)
		if s.certs != nil {
			addrs.Gateway, addrs.Local = secureURLs(s.certs, at)
		}
		s.cfg.TLS.RedirectPort = cmp.Or(s.cfg.TLS.RedirectPort, portOf(at))
	}
	if s.cfg.TLS.RedirectListen != "" {
		at, err := open(Redirect, s.cfg.TLS.RedirectListen, "gateway.tls.redirect_listen")
		if err != nil {
			return all, err
		}
		addrs.Redirect = baseURL(at)
	}
	if s.admin.Listen != "" {
		at, err := open(Admin, s.admin.Listen, "admin.listen")
		if err != nil {
			return all, err
		}
		addrs.Admin = baseURL(at)
	}
	if s.deps.Socket != "" {
		l, err := listenSocket(ctx, s.deps.Socket)
		if err != nil {
			return all, err
		}
		addrs.Socket = s.deps.Socket
		all = append(all, s.newListener(Socket, l))
	}
	s.addrs.Store(&addrs)
	return all, nil
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
