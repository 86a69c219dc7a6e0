// Package capabilities provides the key ring of a home directory and its list of
// revocations: [Files] is for the commands that change them, [Verifier] for the node
// that runs.
//
// Invariants: a node never writes the files; a change is atomic; a file that cannot be
// read leaves in force what was read before, of both files together.
//
// One capability, walked through: `allium token mint` calls [Files.Mint], which
// creates the ring if there is none. A client shows the capability to the gateway,
// which calls [Verifier.Verify]. If its key is not known yet, Verify lets the watch of
// the files read them again and checks once more. `allium token revoke` calls
// [Files.Revoke]; within a second Verifier.Run reads the list, and Verify refuses.
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

	"allium/internal/env"
	"allium/internal/filewatch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// ringEvery is the time between two looks at the files of capabilities. ringHurry is
// the shortest such time, when a client shows a capability with an unknown key: one
// that was minted a moment ago is valid at once.
const (
	ringEvery = time.Second
	ringHurry = 100 * time.Millisecond
)

// Verifier verifies the capabilities that clients show, with the files of the home
// directory. If one of the files cannot be read, both stay in force as they were read
// before: a ring without its list would make revoked capabilities valid again.
type Verifier struct {
	files    Files
	verifier *capability.Verifier
	log      *slog.Logger
	m        metrics

	watch  *filewatch.Files
	digest b3.Root // of both files as they were read last; only read uses it
	minted bool    // the ring had keys then; only read uses it
}

// New returns the verifier of the node with this identity, and reads the files. It
// returns an error if a file exists and cannot be read.
func New(
	home string, identity crypto.PrivKey, log *slog.Logger, reg prometheus.Registerer, registry *limits.Registry,
) (*Verifier, error) {
	self, err := peer.IDFromPrivateKey(identity)
	if err != nil {
		return nil, err
	}
	c := &Verifier{
		files: Open(home), verifier: capability.NewVerifier(self.String(), nil, registry), log: log, m: newMetrics(reg),
	}
	files := []string{filepath.Join(home, RingFile), filepath.Join(home, revokedFile)}
	c.watch, err = filewatch.New(filewatch.Config{
		Files: func() []string { return files }, Every: ringEvery, Hurry: ringHurry, Read: c.read, Failed: c.failed,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Verify implements [allium/gateway/policy.Capabilities]. If the key of the token is unknown, it
// waits until the files have been looked at, at most ringEvery, and tries again.
func (c *Verifier) Verify(ctx context.Context, token string, ask capability.Request) (capability.Grant, error) {
	g, err := c.verifier.Verify(token, ask)
	if capability.RefusalOf(err) == string(capability.UnknownKey) {
		look, cancel := context.WithTimeout(ctx, ringEvery)
		_ = c.watch.Look(look) // errors of the files are logged
		cancel()
		g, err = c.verifier.Verify(token, ask)
	}
	if err == nil || !ask.RateTaken {
		c.m.checks.WithLabelValues(capability.RefusalOf(err)).Inc()
	}
	return g, err
}

// Derive returns the keys that the ring in force derives. See [capability.Ring.Derive].
func (c *Verifier) Derive(context string) []capability.Derived { return c.verifier.Derive(context) }

// Reload makes Run read the files now. It returns the error of the files, if any; what
// was read before then stays in force.
func (c *Verifier) Reload(ctx context.Context) error { return c.watch.Reload(ctx) }

// Run watches the files until ctx ends.
func (c *Verifier) Run(ctx context.Context, ready func()) error {
	return c.watch.Run(ctx, ready)
}

// read reads both files and puts them in force, or returns an error.
func (c *Verifier) read() error {
	ring, revoked, err := c.files.Both()
	if err != nil {
		return err
	}
	c.verifier.Set(ring, revoked)
	c.m.reloads.WithLabelValues("ok").Inc()
	c.m.keys.Set(float64(len(ring.Keys())))
	c.m.revoked.Set(float64(revoked.Len()))
	if digest := b3.Sum(slices.Concat(ring.Text(), revoked.Text())); digest != c.digest {
		c.digest = digest
		if len(ring.Keys()) > 0 {
			c.log.Info("capabilities read", "keys", len(ring.Keys()), "revoked", revoked.Len())
		} else if revoked.Len() > 0 || c.minted {
			c.log.Warn("the key ring of capabilities has no keys: every capability is refused", "revoked",
				revoked.Len())
		}
		c.minted = len(ring.Keys()) > 0
	}
	return nil
}

// failed reports that the files could not be read.
func (c *Verifier) failed(err error) {
	c.m.reloads.WithLabelValues("failed").Inc()
	c.log.Warn("capabilities were not read again; what was read before stays in force", "err", err)
}

// metrics counts the checks, and describes the files as they were read last.
type metrics struct {
	checks  *prometheus.CounterVec
	reloads *prometheus.CounterVec
	keys    prometheus.Gauge
	revoked prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		checks: env.CounterVec("capability_checks_total",
			"Capabilities that clients showed, by result: ok, or why they were refused.", "result"),
		reloads: env.CounterVec("capability_reloads_total",
			"Times the key ring and the list of what is revoked were read, by result: ok or failed.", "result"),
		keys:    env.Gauge("capability_keys", "Root keys that capabilities are verified with."),
		revoked: env.Gauge("capability_revoked", "Capabilities and keys that are revoked."),
	}
	m.checks.WithLabelValues("ok")
	for _, r := range capability.Refusals() {
		m.checks.WithLabelValues(string(r))
	}
	env.Values(m.reloads, "ok", "failed")
	env.MustRegister(reg, m.checks, m.reloads, m.keys, m.revoked)
	return m
}
