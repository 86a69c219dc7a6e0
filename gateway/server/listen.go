package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"allium/gateway/server/sockets"
	"allium/protocols/status"
)

// Addrs are the addresses of a Server's listeners. The address of a missing listener is empty.
type Addrs struct {
	Gateway  string // base URL, without a final slash
	Local    string // the base URL by IP address, if Gateway has a certificate's name; else empty
	Redirect string // base URL, without a final slash
	Admin    string // base URL, without a final slash
	Socket   string // path of the Unix socket
}

// Addrs returns the addresses of the listeners. They are empty until Run calls ready.
func (s *Server) Addrs() Addrs {
	if at := s.addrs.Load(); at != nil {
		return *at
	}
	return Addrs{}
}

// listen opens all listeners, or none if one fails.
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
		l, err := sockets.Listen(ctx, s.deps.Socket)
		if err != nil {
			return all, err
		}
		addrs.Socket = s.deps.Socket
		all = append(all, s.newListener(Socket, l))
	}
	s.addrs.Store(&addrs)
	return all, nil
}

// baseURL returns the URL by which a user of this machine reaches a listener. For a listener on
// every address it is the loopback address.
func baseURL(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err == nil && ap.Addr().IsUnspecified() {
		a = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port()))
	}
	return "http://" + a.String()
}

// listenError returns an error whose message says the cause in plain words. The cause is in its
// chain.
func listenError(o status.Outcome, cause error, format string, args ...any) error {
	return &status.Error{Outcome: o, Message: fmt.Sprintf(format, args...), Err: cause}
}

// listenTCP opens a TCP listener. key is the configuration key of addr, for the error.
func listenTCP(ctx context.Context, addr, key string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, listenError(status.Conflict, err, "cannot listen on %s: the port is in use. "+
			"Stop the program that listens there, or set %s to another port (0 is any free one)", addr, key)
	case errors.Is(err, syscall.EACCES):
		return nil, listenError(status.Forbidden, err,
			"cannot listen on %s: this user may not open the port. Set %s to a port above 1023, "+
				"or give the service the capability CAP_NET_BIND_SERVICE", addr, key)
	case err != nil:
		return nil, status.Errorf(status.TransportDown,
			"cannot listen on %s: %w. Set %s to an address of this machine, or start the node when it has this one",
			addr, err, key)
	}
	return l, nil
}
