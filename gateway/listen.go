package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"allium/protocols/admission"
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
			addrs.Gateway = secureURL(g.certs, l.Addr())
		}
		sides = append(sides, g.publicSide(g.limit(l, g.conns.public, newIPCounts(g.cfg.ConnsPerIP))))
	}
	if g.cfg.TLS.RedirectListen != "" {
		g.httpsPort = cmp.Or(g.cfg.TLS.RedirectPort, portOf(sides[0].listener.Addr()))
		l, err := listenTCP(ctx, g.cfg.TLS.RedirectListen, "gateway.tls.redirect_listen")
		if err != nil {
			return sides, err
		}
		addrs.Redirect = baseURL(l.Addr())
		sides = append(sides, g.redirectSide(g.limit(l, g.conns.redirect, newIPCounts(g.cfg.ConnsPerIP))))
	}
	if g.admin.Listen != "" {
		l, err := listenTCP(ctx, g.admin.Listen, "admin.listen")
		if err != nil {
			return sides, err
		}
		addrs.Admin = baseURL(l.Addr())
		sides = append(sides, g.adminSide(g.limit(l, g.conns.admin, nil), l.Addr()))
	}
	if g.deps.Socket != "" {
		l, err := listenSocket(ctx, g.deps.Socket)
		if err != nil {
			return sides, err
		}
		addrs.Socket = g.deps.Socket
		sides = append(sides, g.socketSide(g.limit(l, g.conns.socket, nil)))
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

// connLimits bounds the connections of each listener.
type connLimits struct{ public, redirect, admin, socket *admission.Gate }

func newConnLimits(cfg Config, admin AdminConfig, r *admission.Registry) connLimits {
	gate := func(name, from string, n int64) *admission.Gate {
		return r.NewGate(admission.Spec{Name: name, Path: from + " → connections", Policy: "closed at once"}, n, 0)
	}
	limits := connLimits{
		public: gate("gateway.conns", "public listener", cfg.Conns),
		admin:  gate("admin.conns", "admin listener", admin.Conns),
		socket: gate("admin.socket_conns", "Unix socket", admin.Conns),
	}
	if cfg.TLS.RedirectListen != "" {
		limits.redirect = gate("gateway.redirect_conns", "redirect listener", cfg.Conns)
	}
	return limits
}

// limited is a listener that closes what is over its bounds before anything is
// spent on it.
type limited struct {
	net.Listener
	gate   *admission.Gate
	perIP  *ipCounts // nil: not counted
	reject func(reason string)
}

func (g *Gateway) limit(l net.Listener, gate *admission.Gate, perIP *ipCounts) net.Listener {
	return &limited{Listener: l, gate: gate, perIP: perIP, reject: func(reason string) {
		g.m.rejected.WithLabelValues(reason).Inc()
	}}
}

// Accept returns the next connection within the bounds.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := peerAllowed(c); err != nil {
			l.refuse(c, "peer_uid")
			continue
		}
		release, err := l.gate.TryAcquire()
		if err != nil {
			l.refuse(c, "conns")
			continue
		}
		leave, ok := l.perIP.enter(c.RemoteAddr())
		if !ok {
			release()
			l.refuse(c, "conns_per_ip")
			continue
		}
		return &conn{Conn: c, release: sync.OnceFunc(func() { leave(); release() })}, nil
	}
}

// refuse closes with a reset, which costs the least on both ends.
func (l *limited) refuse(c net.Conn, reason string) {
	l.reject(reason)
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	release func()
	late    atomic.Bool // a read ran into its deadline; of use while TLS shakes hands
}

// Read reads, and notes when the time for it is over.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.late.Store(true)
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// CloseWrite lets net/http end a connection without a reset that would destroy
// its last answer.
func (c *conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ipCounts counts connections by IPv4 address or IPv6 /64. There are at most
// as many entries as connections.
type ipCounts struct {
	max int
	mu  sync.Mutex
	n   map[netip.Prefix]int
}

func newIPCounts(most int) *ipCounts { return &ipCounts{max: most, n: map[netip.Prefix]int{}} }

// enter counts a connection in. A nil ipCounts has no bound.
func (c *ipCounts) enter(a net.Addr) (leave func(), ok bool) {
	if c == nil {
		return func() {}, true
	}
	p := ipGroup(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[p] >= c.max {
		return nil, false
	}
	c.n[p]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.n[p]--; c.n[p] == 0 {
			delete(c.n, p)
		}
	}, true
}

// ipGroup is what one subscriber can use: an IPv4 address or an IPv6 /64.
func ipGroup(a net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := ap.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		panic(fmt.Sprintf("gateway: %s has no /%d", ip, bits)) // 32 and 64 are valid for their families
	}
	return p
}
