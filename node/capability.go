package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway"
	"allium/node/supervise"
	"allium/protocols/admission"
	"allium/protocols/capability"
)

// ringEvery is how often a node looks whether the files of capabilities are
// others, and ringHurry how often at most when a token asks for a key it has
// not: what was minted a moment ago is good at once.
const (
	ringEvery = time.Second
	ringHurry = 100 * time.Millisecond
)

// capabilities verifies what clients show, by the files of the home directory.
// The node never writes those. Files that cannot be read leave in force what was
// read before, both together: a ring without its revocations would take back
// what was revoked.
type capabilities struct {
	files    Capabilities
	verifier *capability.Verifier
	log      *slog.Logger
	m        capabilityMetrics

	reading atomic.Bool // who sets it owns seen
	seen    [2]fs.FileInfo
	hurried atomic.Int64 // when a token last asked for a look, in nanoseconds since start
	start   time.Time
}

var _ gateway.Capabilities = (*capabilities)(nil)

// newCapabilities reads the files of the node with that identity: those that are
// there must be good.
func newCapabilities(home string, identity crypto.PrivKey, log *slog.Logger, reg prometheus.Registerer, limits *admission.Registry) (*capabilities, error) {
	self, err := peer.IDFromPrivateKey(identity)
	if err != nil {
		return nil, err
	}
	c := &capabilities{
		files: OpenCapabilities(home), verifier: capability.NewVerifier(self.String(), nil, limits), log: log, m: newCapabilityMetrics(reg), start: time.Now(),
	}
	c.hurried.Store(-int64(ringHurry))
	_, err = c.look(true)
	return c, err
}

// Verify implements gateway.Capabilities.
func (c *capabilities) Verify(_ context.Context, token string, ask capability.Ask) (capability.Grant, error) {
	g, err := c.verifier.Verify(token, ask)
	if capability.RefusalOf(err) == string(capability.UnknownKey) && c.hurry() {
		g, err = c.verifier.Verify(token, ask)
	}
	if err == nil || !ask.Again {
		c.m.checks.WithLabelValues(capability.RefusalOf(err)).Inc()
	}
	return g, err
}

// hurry looks at the files now, if nobody did a moment ago, and reports whether
// they changed.
func (c *capabilities) hurry() bool {
	now, last := int64(time.Since(c.start)), c.hurried.Load()
	if now-last < int64(ringHurry) || !c.hurried.CompareAndSwap(last, now) {
		return false
	}
	changed, err := c.look(false)
	return changed && err == nil
}

// Reload looks at the files now. Its error says what is wrong with them; what was
// read before stays in force.
func (c *capabilities) Reload() error {
	_, err := c.look(true)
	return err
}

// Run follows the files until ctx ends.
func (c *capabilities) Run(ctx context.Context, ready func()) error {
	tick := time.NewTicker(ringEvery)
	defer tick.Stop()
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_, _ = c.look(false) // it has logged and counted what is wrong
		}
	}
}

// look reads the files if they are not those that were read last, or in any
// case. While somebody else reads them it does nothing.
func (c *capabilities) look(anyway bool) (changed bool, err error) {
	if !c.reading.CompareAndSwap(false, true) {
		return false, nil
	}
	defer c.reading.Store(false)
	now, err := c.stat()
	if !anyway && same(now[0], c.seen[0]) && same(now[1], c.seen[1]) {
		return false, nil
	}
	c.seen = now // before they are read: what changes meanwhile is seen next time
	if err == nil {
		err = c.read()
	}
	if err != nil {
		c.m.reloads.WithLabelValues("failed").Inc()
		c.log.Warn("capabilities were not read again; what was read before stays in force", "err", err)
		return false, err
	}
	c.m.reloads.WithLabelValues("ok").Inc()
	return true, nil
}

func (c *capabilities) read() error {
	ring, err := c.files.Ring()
	if err != nil {
		return err
	}
	revoked, err := c.files.Revoked()
	if err != nil {
		return err
	}
	c.verifier.Set(ring, revoked)
	c.m.keys.Set(float64(len(ring.Keys())))
	c.m.revoked.Set(float64(revoked.Len()))
	if len(ring.Keys()) > 0 {
		c.log.Info("capabilities read", "keys", len(ring.Keys()), "revoked", revoked.Len())
	}
	return nil
}

// stat describes both files; nil for one that is not there.
func (c *capabilities) stat() (infos [2]fs.FileInfo, err error) {
	for i, name := range []string{ringFile, revokedFile} {
		info, serr := os.Stat(filepath.Join(c.files.home, name))
		if serr == nil {
			infos[i] = info
		} else if !errors.Is(serr, fs.ErrNotExist) {
			err = serr
		}
	}
	return infos, err
}

// same reports whether a file is as it was; permissions matter, too.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

func (n *Node) startCapabilities(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{Name: "capabilities", Run: n.capabilities.Run})
}

// capabilityMetrics counts checks and follows the files.
type capabilityMetrics struct {
	checks  *prometheus.CounterVec
	reloads *prometheus.CounterVec
	keys    prometheus.Gauge
	revoked prometheus.Gauge
}

func newCapabilityMetrics(reg prometheus.Registerer) capabilityMetrics {
	m := capabilityMetrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capability_checks_total", Help: "Capabilities that clients showed, by result: ok, or why they were refused.",
		}, []string{"result"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capability_reloads_total", Help: "Times the key ring and the list of what is revoked were read, by result: ok or failed.",
		}, []string{"result"}),
		keys:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "capability_keys", Help: "Root keys that capabilities are verified with."}),
		revoked: prometheus.NewGauge(prometheus.GaugeOpts{Name: "capability_revoked", Help: "Capabilities and keys that are revoked."}),
	}
	m.checks.WithLabelValues("ok")
	for _, r := range capability.Refusals() {
		m.checks.WithLabelValues(string(r))
	}
	for _, r := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(r)
	}
	if reg != nil {
		reg.MustRegister(m.checks, m.reloads, m.keys, m.revoked)
	}
	return m
}
