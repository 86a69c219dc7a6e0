package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"allium/gateway/policy"
	homedir "allium/node/home"

	"allium/gateway/policy/audit"
	"allium/node/readiness"
	"allium/node/supervise"
)

// newAudit returns the audit log, or nil if audit.enabled is false. With amnesia
// the log is in RAM.
func (n *Node) newAudit() (*audit.Log, error) {
	if !n.cfg.Audit.Enabled {
		return nil, nil
	}
	dir := filepath.Join(n.home, homedir.AuditDir)
	if n.cfg.Node.Amnesia {
		dir = ""
	}
	return audit.New(n.cfg.Audit, dir, audit.Deps{Env: n.env()})
}

// startAudit starts the audit log. It starts before the gateway and so stops after it: the last request of the gateway
// is still recorded.
func (n *Node) startAudit(ctx context.Context) error {
	service := supervise.Service{
		Name: "audit", Owner: "gateway/policy/audit", Doc: "writes the audit log", Fatal: true, When: "audit.enabled",
	}
	if n.audit == nil {
		n.services.Declare(service)
		return nil
	}
	n.warnMissingAudit()
	service.Run = n.audit.Run
	return n.services.Start(ctx, service)
}

// warnMissingAudit logs a warning if a node has run in this home directory and
// there is no audit log: somebody removed it, or audit.enabled was set only now.
func (n *Node) warnMissingAudit() {
	if n.cfg.Node.Amnesia {
		return
	}
	dir := filepath.Join(n.home, homedir.AuditDir)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if _, err := os.Stat(filepath.Join(n.home, homedir.RecordsDir)); err == nil {
		n.log.Warn("a node has run in this home directory, and there is no audit log: "+
			"unless audit.enabled was set only now, somebody removed it. The node begins a new one", "dir", dir)
	}
}

// gatewayAudit returns the audit log as the gateway's interface: nil, not a nil
// *audit.Log, if there is none.
func (n *Node) gatewayAudit() policy.Audit {
	if n.audit == nil {
		return nil
	}
	return n.audit
}

// auditGate is shut while the audit log cannot be written, because the node
// changes nothing without a record.
func (n *Node) auditGate() readiness.Reading {
	if n.audit == nil {
		return readiness.YesNo(true, "")
	}
	err := n.audit.Err()
	r := readiness.YesNo(err == nil, fmt.Sprintf("%v", err))
	r.RetryAfter = time.Second
	return r
}

// VerifyAudit checks the audit log in the files paths as [audit.Verify] does. If
// head is not empty, it is the hash of a record that must be in the log.
func VerifyAudit(ctx context.Context, paths []string, head string) (audit.Report, error) {
	return audit.Verify(ctx, paths, audit.VerifyOptions{Head: head})
}
