package node

import (
	"path/filepath"

	"allium/node/readiness"
	"allium/node/reload"
)

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
