package origin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

// newTransport returns the transport of a client. roots are the authorities to trust, nil for those of the machine.
func newTransport(private bool, roots *x509.CertPool, deps Deps, p Params) *http.Transport {
	d := &net.Dialer{
		Timeout: p.Connect, Resolver: deps.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			if err := deps.Life.Err(); err != nil {
				return err
			}
			return checkDial(network, address, private)
		},
	}
	// The transport goes on with a connection whose request has ended, so a dial has the life of the client too.
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, end := deps.Life.Within(ctx)
		defer end()
		return d.DialContext(ctx, network, address)
	}
	return &http.Transport{
		Proxy:       nil, // an environment variable would send every request elsewhere
		DialContext: dial,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"},
		},
		TLSHandshakeTimeout: p.FirstByte,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // else the transport would ask for gzip and decode it
		MaxIdleConns:        idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// checkDial returns an error unless the dialer may connect to address, which it has looked up.
func checkDial(network, address string, private bool) error {
	if network != "tcp4" && network != "tcp6" {
		return errNoAddress
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errNoAddress
	}
	return checkAddress(at.Addr(), private)
}
