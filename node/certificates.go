package node

import (
	"path/filepath"

	"allium/node/readiness"
)

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
func (n *Node) certificateGate() readiness.Reading {
	if !n.started.Load() {
		return readiness.Reading{Need: 1, Fix: "wait: the node is starting"}
	}
	if err := n.gateway.CertificateError(); err != nil {
		return readiness.Reading{Need: 1, Fix: err.Error()}
	}
	return readiness.Reading{Have: 1, Need: 1}
}
