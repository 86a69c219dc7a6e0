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
func newTransport(private bool, roots *x509.CertPool, resolver *net.Resolver, p Params) *http.Transport {
	d := &net.Dialer{
		Timeout: p.Connect, Resolver: resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return checkDial(network, address, private)
		},
	}
	return &http.Transport{
		Proxy:       nil, // an environment variable would send every request elsewhere
		DialContext: d.DialContext,
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
