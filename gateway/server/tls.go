package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"

	"allium/gateway/certs"
)

// tlsConfig is TLS 1.2 and later with the suites that Go ranks; the server adds
// what it speaks to NextProtos.
func tlsConfig(source certs.Source, m *metrics) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: source.Get,
		NextProtos:     []string{"h2", "http/1.1", certs.ALPNProto},
		VerifyConnection: func(tls.ConnectionState) error { // the last step of a handshake
			m.handshakes.WithLabelValues("ok").Inc()
			return nil
		},
	}
}

// handshakeFailed counts a connection that ends without having shaken hands.
func (s *Server) handshakeFailed(c net.Conn) {
	t, ok := c.(*tls.Conn)
	if !ok || t.ConnectionState().HandshakeComplete {
		return
	}
	result := "failed"
	if inner, ok := t.NetConn().(*conn); ok && inner.late.Load() {
		result = "timeout"
	}
	s.metrics.handshakes.WithLabelValues(result).Inc()
}

// secureURLs are where others find the listener at a, by the name that its
// certificate proves, and where it is on this machine, which that name need not
// lead to. Without a name they are one, and local is empty.
func secureURLs(certs certs.Source, a net.Addr) (named, local string) {
	local = strings.Replace(baseURL(a), "http://", "https://", 1)
	name := certs.Name()
	if name == "" {
		return local, ""
	}
	return "https://" + hostPort(name, portOf(a)), local
}

// hostPort is the authority of an https URL.
func hostPort(host string, port int) string {
	switch {
	case port != 443:
		return net.JoinHostPort(host, strconv.Itoa(port))
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	default:
		return host
	}
}

func portOf(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 443
}

// CertificateError returns nil while the public listener can prove every name
// of its own, and always without TLS; otherwise what is wrong and what to do.
// It does no I/O.
func (s *Server) CertificateError() error {
	if s.certs == nil {
		return nil
	}
	return s.certs.Check()
}

// CertificateReload reads the files of the public listener's certificate again
// while Run runs: what cannot be used leaves the one that is in use, and is the
// error. It is nil where there are no such files.
func (s *Server) CertificateReload() func(context.Context) error {
	if f, ok := s.certs.(interface{ Reload(context.Context) error }); ok {
		return f.Reload
	}
	return nil
}

// protocols are the versions of HTTP that a side speaks: HTTP/2 over TLS, or
// without where a proxy is told to.
func (l *listener) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(l.tls != nil)
	p.SetUnencryptedHTTP2(l.h2c)
	return p
}

// h2Streams is how many requests one HTTP/2 connection may have in flight.
const h2Streams = 100

// http2Config bounds what one HTTP/2 connection may hold: 100 streams, frames of
// 16 KiB, 256 KiB of a body that nobody reads and 1 MiB of all of them, tables of
// 4 KiB. One that takes less than it must is closed, see pace. No pings are sent:
// their answers are as late as all that a slow client has not read yet.
func (s *Server) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: h2Streams,
		MaxReadFrameSize:     16 << 10, MaxDecoderHeaderTableSize: 4 << 10, MaxEncoderHeaderTableSize: 4 << 10,
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20,
		WriteByteTimeout: s.cfg.WriteTimeout,
		CountError:       func(kind string) { s.metrics.http2Errors.WithLabelValues(kind).Inc() },
	}
}
