package node

import "path/filepath"

// acmeDir is where the gateway's ACME keeps its account and certificates; with
// amnesia they end with the process.
func (n *Node) acmeDir() string {
	if n.cfg.Node.Amnesia {
		return ""
	}
	return filepath.Join(n.home, "acme")
}

// reloadCertificate names the files of a certificate of the operator's own among
// those that can be read again.
func (n *Node) reloadCertificate() {
	if reload := n.gateway.CertificateReload(); reload != nil {
		n.reloaders.add(Reloader{Name: "certificate", Reload: reload})
	}
}

// certificateGate is ready while the public listener can prove who it is.
func (n *Node) certificateGate() Reading {
	if !n.started.Load() {
		return Reading{Need: 1, Fix: "wait: the node is starting"}
	}
	if err := n.gateway.CertificateError(); err != nil {
		return Reading{Need: 1, Fix: err.Error()}
	}
	return Reading{Have: 1, Need: 1}
}
