package node

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/gateway/certs"
	"allium/internal/ipgroup"
	"allium/node/readiness"
	"allium/node/reload"
)

// certificateNeeds returns what the certificates of the public listener need of the node.
func certificateNeeds(n *Node) certs.Node {
	return certs.Node{
		ACMEDir: n.acmeDir(),
		Addresses: func(ctx context.Context) []netip.Addr {
			r, err := n.api.Reach(ctx)
			if err != nil {
				return nil
			}
			return publicAddresses(n.cfg.Gateway.Listen, r)
		},
	}
}

// publicAddresses returns the addresses at which others on the Internet find a listener of the
// gateway: those that peers have confirmed first, then public IPv4 addresses of this machine. Its IPv6
// addresses count only once confirmed, because some of them last for a day.
func publicAddresses(listen string, r api.Reach) (all []netip.Addr) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil
	}
	at, err := netip.ParseAddr(host)
	if err == nil && !at.IsUnspecified() {
		if ipgroup.Public(at) {
			all = append(all, at)
		}
		return all
	}
	add := func(wanted func(api.ReachAddr, netip.Addr) bool) {
		for _, a := range r.Addrs {
			m, err := ma.NewMultiaddr(a.Addr)
			if err != nil || a.Via == "relay" {
				continue
			}
			ip, ok := ipgroup.IP(m)
			if ok && ipgroup.Public(ip) && wanted(a, ip) && !slices.Contains(all, ip) {
				all = append(all, ip)
			}
		}
	}
	add(func(a api.ReachAddr, _ netip.Addr) bool { return a.State == api.ReachConfirmed })
	add(func(a api.ReachAddr, ip netip.Addr) bool { return a.Via == "interface" && ip.Is4() })
	if err == nil && at.Is4() { // 0.0.0.0
		all = slices.DeleteFunc(all, netip.Addr.Is6)
	}
	return all
}

// acmeDir returns the directory where the gateway stores its ACME account and
// certificates. With amnesia it is empty, and they end with the process.
func (n *Node) acmeDir() string {
	if n.cfg.Node.Amnesia {
		return ""
	}
	return filepath.Join(n.home, "acme")
}

// reloadCertificate adds the operator's own certificate, if one is configured, to
// the files that a reload reads again.
func (n *Node) reloadCertificate() {
	if again := n.gateway.CertificateReload(); again != nil {
		n.reloads.Add(reload.File{Name: "certificate", Reload: again})
	}
}

// certificateGate is open while the public listener has a certificate that is
// valid now.
func (n *Node) certificateGate() readiness.Reading {
	if !n.started.Load() {
		return readiness.Reading{Need: 1, Fix: "wait: the node is starting"}
	}
	if err := n.gateway.CertificateError(); err != nil {
		return readiness.Reading{Need: 1, Fix: err.Error()}
	}
	return readiness.Reading{Have: 1, Need: 1}
}
