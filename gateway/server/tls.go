package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"

	"allium/gateway/certs"
	"allium/gateway/server/conns"
)

// tlsConfig returns the configuration of the public listener: TLS 1.2 and later with Go's
// default cipher suites.
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

// handshakeFailed counts a connection that ends before its TLS handshake is complete.
func (m *metrics) handshakeFailed(c net.Conn) {
	t, ok := c.(*tls.Conn)
	if !ok || t.ConnectionState().HandshakeComplete {
		return
	}
	result := "failed"
	if inner, ok := t.NetConn().(*conns.Conn); ok && inner.TimedOut() {
		result = "timeout"
	}
	m.handshakes.WithLabelValues(result).Inc()
}

// secureURLs returns the URL of the listener at a by its certificate's name, and its URL on this
// machine, because the name may not resolve here. Without a name, named is the local URL and
// local is empty.
func secureURLs(certs certs.Source, a net.Addr) (named, local string) {
	local = strings.Replace(baseURL(a), "http://", "https://", 1)
	name := certs.Name()
	if name == "" {
		return local, ""
	}
	return "https://" + hostPort(name, portOf(a)), local
}

// hostPort returns the authority of an https URL.
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

// CertificateError returns nil while the public listener has a valid certificate for each of its
// names, and always without TLS. Otherwise the error says what is wrong and what to do. It does
// no I/O.
func (s *Server) CertificateError() error {
	if s.certs == nil {
		return nil
	}
	return s.certs.Check()
}

// CertificateReload returns a function that reads the certificate files again while Run runs. If
// they are invalid, the function returns an error and the old certificate stays in use. It
// returns nil if the certificate does not come from files.
func (s *Server) CertificateReload() func(context.Context) error {
	if f, ok := s.certs.(interface{ Reload(context.Context) error }); ok {
		return f.Reload
	}
	return nil
}

// protocols returns the versions of HTTP that the listener speaks: HTTP/1, and HTTP/2 over TLS
// or with h2c.
func (l *listener) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(l.tls != nil)
	p.SetUnencryptedHTTP2(l.h2c)
	return p
}

// h2Streams bounds the requests in flight on one HTTP/2 connection.
const h2Streams = 100

// http2Config bounds the memory of one HTTP/2 connection: 100 streams, frames of 16 KiB, header
// tables of 4 KiB, and unread bodies of 256 KiB each and 1 MiB together. Package conns closes a
// connection that takes nothing. The server sends no pings, because a slow client answers them
// only after it has read everything before them.
func (s *Server) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: h2Streams,
		MaxReadFrameSize:     16 << 10, MaxDecoderHeaderTableSize: 4 << 10, MaxEncoderHeaderTableSize: 4 << 10,
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20,
		WriteByteTimeout: s.cfg.StallTimeout / conns.StallChecks,
		CountError:       func(kind string) { s.metrics.http2Errors.WithLabelValues(kind).Inc() },
	}
}
