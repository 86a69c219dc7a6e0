package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	homedir "allium/node/home"

	"allium/gateway/audit"
	"allium/gateway/exchange"
	"allium/node/readiness"
	"allium/node/supervise"
)

// newAudit returns the audit log, nil where there is to be none.
func (n *Node) newAudit() (*audit.Log, error) {
	if !n.cfg.Audit.Enabled {
		return nil, nil
	}
	dir := filepath.Join(n.home, homedir.AuditDir)
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
	n.missedAudit()
	return n.services.Start(ctx, supervise.Service{Name: "audit", Run: n.audit.Run, Fatal: true})
}

// missedAudit tells of an audit log that is gone, or was only now asked for.
func (n *Node) missedAudit() {
	if n.cfg.Node.Amnesia {
		return
	}
	_, none := os.Stat(filepath.Join(n.home, homedir.AuditDir))
	if _, err := os.Stat(filepath.Join(n.home, homedir.RecordsDir)); err == nil && errors.Is(none, fs.ErrNotExist) {
		n.log.Warn("a node has run in this home directory, and there is no audit log: unless audit.enabled was only now set, somebody removed it. A new one is begun", "dir", filepath.Join(n.home, homedir.AuditDir))
	}
}

// audited is the audit log as the gateway has it.
func (n *Node) audited() exchange.Audit {
	if n.audit == nil {
		return nil
	}
	return n.audit
}

// auditGate shuts while the audit log cannot be written: nothing is changed
// without a record.
func (n *Node) auditGate() readiness.Reading {
	if n.audit == nil {
		return readiness.YesNo(true, "")
	}
	err := n.audit.Err()
	r := readiness.YesNo(err == nil, fmt.Sprintf("%v", err))
	r.RetryAfter = time.Second
	return r
}

// VerifyAudit reads an audit log through, see [audit.Verify]; head is the hash
// of a record that has to be in it, or empty.
func VerifyAudit(ctx context.Context, paths []string, head string) (audit.Report, error) {
	return audit.Verify(ctx, paths, audit.VerifyOptions{Head: head})
}
