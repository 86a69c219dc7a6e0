// Package capabilities keeps the key ring of a home directory and the list of what is
// revoked: commands change the files, a running node follows them.
package capabilities

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/exchange"
	"allium/internal/filewatch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// ringEvery is how often a node looks whether the files of capabilities are
// others, and ringHurry how often at most when a token asks for a key it has
// not: what was minted a moment ago is good at once.
const (
	ringEvery = time.Second
	ringHurry = 100 * time.Millisecond
)

// Verifier verifies what clients show, by the files of the home directory.
// The node never writes those. Files that cannot be read leave in force what was
// read before, both together: a ring without its revocations would take back
// what was revoked.
type Verifier struct {
	files    Files
	verifier *capability.Verifier
	log      *slog.Logger
	m        metrics

	followed *filewatch.Files
	read     b3.Root // of both files as they were read last; of who reads alone
	minted   bool    // there were keys then; likewise
}

var _ exchange.Capabilities = (*Verifier)(nil)

// New reads the files of the node with that identity: those that are
// there must be good.
func New(home string, identity crypto.PrivKey, log *slog.Logger, reg prometheus.Registerer, registry *limits.Registry) (*Verifier, error) {
	self, err := peer.IDFromPrivateKey(identity)
	if err != nil {
		return nil, err
	}
	c := &Verifier{
		files: Open(home), verifier: capability.NewVerifier(self.String(), nil, registry), log: log, m: newMetrics(reg),
	}
	c.followed, err = filewatch.New(filewatch.Config{
		Files: []string{filepath.Join(home, ringFile), filepath.Join(home, revokedFile)},
		Every: ringEvery, Hurry: ringHurry, Read: c.take, Failed: c.failed,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Verify implements exchange.Capabilities. A token with a key that the node has
// not waits until the files were looked at, for ringEvery at the most.
func (c *Verifier) Verify(ctx context.Context, token string, ask capability.Ask) (capability.Grant, error) {
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
func (c *Verifier) Reload(ctx context.Context) error { return c.followed.Reload(ctx) }

// Run follows the files until ctx ends.
func (c *Verifier) Run(ctx context.Context, ready func()) error {
	return c.followed.Run(ctx, ready)
}

// take takes over the files as they are, or says why it cannot.
func (c *Verifier) take() error {
	ring, revoked, err := c.files.Both()
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
		} else if revoked.Len() > 0 || c.minted {
			c.log.Warn("there are no keys of capabilities (any more): every capability is refused", "revoked", revoked.Len())
		}
		c.minted = len(ring.Keys()) > 0
	}
	return nil
}

func (c *Verifier) failed(err error) {
	c.m.reloads.WithLabelValues("failed").Inc()
	c.log.Warn("capabilities were not read again; what was read before stays in force", "err", err)
}

// metrics counts checks and follows the files.
type metrics struct {
	checks  *prometheus.CounterVec
	reloads *prometheus.CounterVec
	keys    prometheus.Gauge
	revoked prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
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
