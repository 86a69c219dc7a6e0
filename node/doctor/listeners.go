package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/gateway/certs"
	"allium/internal/privatefile"
	homedir "allium/node/home"
)

// listener is an address at which a node listens.
type listener struct{ key, network, addr string }

// listeners returns the addresses of the configuration that have a port of their own.
func (e *exam) listeners() (all []listener) {
	seen := map[listener]bool{}
	add := func(key, network, addr string) {
		l := listener{key, network, addr}
		if _, ok := portOf(addr); ok && !seen[l] {
			seen[l] = true
			all = append(all, l)
		}
	}
	for _, text := range e.Config.Listen.Listen {
		a, err := ma.NewMultiaddr(text)
		if err != nil {
			continue // the check configuration says so
		}
		for len(a) > 2 { // what is above TCP or UDP
			a = a[:len(a)-1]
		}
		if network, addr, err := manet.DialArgs(a); err == nil {
			add("listen.addrs", network[:3], addr)
		}
	}
	add("gateway.listen", "tcp", e.Config.Gateway.Listen)
	add("gateway.tls.redirect_listen", "tcp", e.Config.Gateway.TLS.RedirectListen)
	add("admin.listen", "tcp", e.Config.Admin.Listen)
	return all
}

func checkPorts(ctx context.Context, e *exam) (all result) {
	if e.Node != nil || e.inUse {
		return skip("a node runs and has them")
	}
	for _, l := range e.listeners() {
		at, err := e.Network.Listen(ctx, l.network, l.addr)
		if err == nil {
			_ = at.Close() // it was only tried
			continue
		}
		all = all.and(cannotListen(e, l, err))
	}
	return all
}

// cannotListen says why an address is not free.
func cannotListen(e *exam, l listener, err error) result {
	const impact = "the node does not start, or not with this listener"
	port, _ := portOf(l.addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		if who := e.Machine.holder(l.network, port); who != "" {
			return fail(say("%s %s of %s is in use by %s", plain(l.network), l.addr, plain(l.key), who), impact,
				"end that program, or set another port with `allium config set "+l.key+"`")
		}
		return fail(say("%s %s of %s is in use", plain(l.network), l.addr, plain(l.key)), impact,
			"find the program with `ss -lpn`, or set another port with `allium config set "+l.key+"`")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail(say("this machine has no address %s, which %s names", l.addr, plain(l.key)), impact,
			"name an address of this machine, or 0.0.0.0 for all")
	case denied(err):
		return fail(say("this user may not listen at %s %s of %s", plain(l.network), l.addr, plain(l.key)), impact,
			"use a port above 1023, or let the service bind it (AmbientCapabilities=CAP_NET_BIND_SERVICE)")
	case errors.Is(err, syscall.EAFNOSUPPORT):
		return note(say("this machine has no IPv6, which %s of %s needs", l.addr, plain(l.key)),
			"the node listens on IPv4 alone", "none is needed, or turn IPv6 on")
	}
	return fail(say("%s %s of %s cannot be listened at: %s", plain(l.network), l.addr, plain(l.key), plain(errno(err))),
		impact, "set another address with `allium config set "+l.key+"`")
}

// soonExpired is the rest of its life from which on a certificate is reported.
const soonExpired = 14 * 24 * time.Hour

// maxCertificate bounds what is read of the file of a certificate, in bytes.
const maxCertificate = 1 << 20

// ownCertificates returns the files of the certificates that the configuration names.
func (e *exam) ownCertificates() []certs.Pair {
	cfg := e.Config.Gateway.TLS
	cfg.Cert, cfg.Key = homedir.Path(e.Home, cfg.Cert), homedir.Path(e.Home, cfg.Key)
	cfg.Certs = slices.Clone(cfg.Certs)
	for i, name := range cfg.Certs {
		cfg.Certs[i] = homedir.Path(e.Home, name)
	}
	return cfg.Pairs()
}

func checkCertificate(_ context.Context, e *exam) (all result) {
	if g, shut := e.gate("tls_certificate"); shut {
		return fail(say("the gateway has no valid certificate: %s", g.Fix), "browsers refuse the gateway",
			"see docs/running/https.md")
	}
	own := e.ownCertificates()
	if len(own) == 0 && e.Config.Gateway.TLS.Orders() && e.Node == nil {
		return skip("no node runs that orders certificates")
	}
	for _, p := range own {
		all = all.and(checkOwnCertificate(e, p))
	}
	return all
}

// checkOwnCertificate looks at a certificate of the operator's own.
func checkOwnCertificate(e *exam, p certs.Pair) result {
	const impact = "browsers and programs refuse the gateway"
	name := p.Cert
	raw, err := privatefile.Read(name, maxCertificate, 0)
	if err != nil {
		return fail(say("the certificate %s cannot be read: %s", name, statErr(err)), impact,
			"name a file that can be read with gateway.tls.cert or gateway.tls.certs")
	}
	var block *pem.Block
	for rest := raw; ; {
		if block, rest = pem.Decode(rest); block == nil || block.Type == "CERTIFICATE" {
			break // a file may have the key too
		}
	}
	if block == nil {
		return fail(say("%s is no certificate in PEM", name), impact, "write the certificate there, with its chain")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fail(say("%s is no certificate: %s", name, err.Error()), impact,
			"write the certificate there, with its chain")
	}
	return checkLeaf(e, p, raw, cert, impact)
}

// checkLeaf looks at a certificate.
func checkLeaf(e *exam, p certs.Pair, raw []byte, cert *x509.Certificate, impact string) result {
	name := p.Cert
	const renew = "renew it and replace the file: the node reads it again within seconds"
	all := e.expires(say("the certificate %s", name), cert.NotAfter, soonExpired, impact, renew)
	if cert.NotBefore.After(e.Now()) {
		all = all.and(fail(say("the certificate %s begins at %s", name,
			plain(cert.NotBefore.UTC().Format(time.RFC3339))), impact, "set the clock of this machine, or wait"))
	}
	if len(cert.DNSNames)+len(cert.IPAddresses) == 0 {
		all = all.and(fail(say("the certificate %s names no host", name), impact,
			"have it made with the host names of the gateway as subject alternative names"))
	}
	key, err := privatefile.Read(p.Key, maxCertificate, 0)
	if err != nil {
		return all // the check certificate_key says so
	}
	if _, err := tls.X509KeyPair(raw, key); err != nil {
		all = all.and(fail(say("the certificate %s and the key %s do not belong together", name, p.Key),
			impact, "write both from the same order"))
	}
	return all
}

func checkCertificateKey(_ context.Context, e *exam) (all result) {
	own := e.ownCertificates()
	if len(own) == 0 {
		return skip("the gateway has no certificate of its own")
	}
	for _, p := range own {
		all = all.and(checkKeyFile(p.Key))
	}
	return all
}

// checkKeyFile looks who may read the key of a certificate.
func checkKeyFile(name string) result {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return fail(say("the key %s cannot be read: %s", name, statErr(err)), "the gateway does not start",
			"name a file that can be read with gateway.tls.key or gateway.tls.certs")
	case info.Mode().Perm()&0o027 != 0:
		return fail(say("other users may use the key %s (mode %04o)", name, info.Mode().Perm()),
			"they can pretend to be this gateway", "chmod 600 "+name+", and have a new certificate made")
	}
	return result{}
}
