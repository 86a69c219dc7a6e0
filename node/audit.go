package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"allium/gateway"
	"allium/gateway/audit"
	"allium/node/supervise"
)

// AuditDir is the directory of the audit log below a home directory.
const AuditDir = "audit"

// newAudit returns the audit log, nil where there is to be none.
func (n *Node) newAudit() (*audit.Log, error) {
	if !n.cfg.Audit.Enabled {
		return nil, nil
	}
	dir := filepath.Join(n.home, AuditDir)
	if n.cfg.Node.Amnesia {
		dir = ""
	}
	return audit.New(n.cfg.Audit, dir, audit.Deps{Log: n.log, Metrics: n.registry, Limits: n.limits})
}

// startAudit opens the audit log. It comes before the gateway, so that it ends
// after the last outcome.
func (n *Node) startAudit(ctx context.Context) error {
	if n.audit == nil {
		return nil
	}
	return n.services.Start(ctx, supervise.Service{Name: "audit", Run: n.audit.Run, Fatal: true})
}

// audited is the audit log as the gateway has it.
func (n *Node) audited() gateway.Audit {
	if n.audit == nil {
		return nil
	}
	return n.audit
}

// auditGate shuts while the audit log cannot be written: nothing is changed
// without a record.
func (n *Node) auditGate() Reading {
	if n.audit == nil {
		return yesNo(true, "")
	}
	err := n.audit.Err()
	r := yesNo(err == nil, fmt.Sprintf("%v", err))
	r.RetryAfter = time.Second
	return r
}

// VerifyAudit reads an audit log through, see [audit.Verify]; head is the hash
// of a record that has to be in it, or empty.
func VerifyAudit(ctx context.Context, paths []string, head string) (audit.Report, error) {
	return audit.Verify(ctx, paths, audit.VerifyOptions{Head: head})
}
