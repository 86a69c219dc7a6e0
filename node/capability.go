package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway"
	"allium/node/supervise"
	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/followed"
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

	followed *followed.Files
	read     b3.Root // of both files as they were read last; of who reads alone
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
		files: OpenCapabilities(home), verifier: capability.NewVerifier(self.String(), nil, limits), log: log, m: newCapabilityMetrics(reg),
	}
	c.followed, err = followed.New(followed.Config{
		Files: []string{filepath.Join(home, ringFile), filepath.Join(home, revokedFile)},
		Every: ringEvery, Hurry: ringHurry, Read: c.take, Failed: c.failed,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Verify implements gateway.Capabilities. A token with a key that the node has
// not waits until the files were looked at, for ringEvery at the most.
func (c *capabilities) Verify(ctx context.Context, token string, ask capability.Ask) (capability.Grant, error) {
	g, err := c.verifier.Verify(token, ask)
	if capability.RefusalOf(err) == string(capability.UnknownKey) {
		look, cancel := context.WithTimeout(ctx, ringEvery)
		_ = c.followed.Look(look) // what is wrong with the files was logged
		cancel()
		g, err = c.verifier.Verify(token, ask)
	}
	if err == nil || !ask.Again {
		c.m.checks.WithLabelValues(capability.RefusalOf(err)).Inc()
	}
	return g, err
}

// Reload lets Run read the files now. Its error says what is wrong with them;
// what was read before stays in force.
func (c *capabilities) Reload(ctx context.Context) error { return c.followed.Reload(ctx) }

// Run follows the files until ctx ends.
func (c *capabilities) Run(ctx context.Context, ready func()) error {
	return c.followed.Run(ctx, ready)
}

// take takes over the files as they are, or says why it cannot.
func (c *capabilities) take() error {
	ring, err := c.files.Ring()
	if err != nil {
		return err
	}
	revoked, err := c.files.Revoked()
	if err != nil {
		return err
	}
	c.verifier.Set(ring, revoked)
	c.m.reloads.WithLabelValues("ok").Inc()
	c.m.keys.Set(float64(len(ring.Keys())))
	c.m.revoked.Set(float64(revoked.Len()))
	if read := b3.Sum(slices.Concat(ring.Text(), revoked.Text())); read != c.read {
		c.read = read
		if len(ring.Keys()) > 0 {
			c.log.Info("capabilities read", "keys", len(ring.Keys()), "revoked", revoked.Len())
		}
	}
	return nil
}

func (c *capabilities) failed(err error) {
	c.m.reloads.WithLabelValues("failed").Inc()
	c.log.Warn("capabilities were not read again; what was read before stays in force", "err", err)
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
