package seeds

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// mark identifies the highest manifest accepted so far. The zero value means none.
type mark struct {
	seq    uint64
	signer peer.ID
	digest b3.Root // of the payload
}

// check refuses a manifest with a lower sequence number than the mark, and a different one with
// the same number.
func (k mark) check(m Manifest, digest b3.Root) error {
	switch {
	case k.signer == "" || m.Seq > k.seq:
		return nil
	case m.Seq < k.seq:
		return status.Errorf(status.Stale, "the seed manifest has sequence number %d, but %d was accepted before: "+
			"get the newer one, or have this one signed again", m.Seq, k.seq)
	case digest != k.digest:
		return status.Errorf(status.Equivocation, "the seed manifest differs from the one accepted before "+
			"under the same sequence number %d: have it signed again", m.Seq)
	}
	return nil
}

// reload reads the manifest file and applies a valid manifest.
func (b *Bootstrapper) reload(ctx context.Context) {
	if b.deps.Manifest == nil {
		return
	}
	now := b.deps.Now()
	m, signer, err := b.read(ctx, now)
	info := b.Manifest()
	out := info.Signer != "" && !info.NotAfter.After(now) // the manifest in force has expired
	switch {
	// An expired one replaces only none or an expired one.
	case signer != "" && (err == nil || info.Signer == "" || out):
		info = ManifestInfo{Seq: m.Seq, Signer: signer, NotAfter: m.NotAfter}
		setManifest(b, m)
		b.m.expiry.Set(float64(m.NotAfter.Unix()))
	case out:
		err = fmt.Errorf("%w; the one in force expired at %s", err, info.NotAfter.UTC().Format(time.RFC3339))
	}
	info.Err = ""
	if err != nil {
		info.Err = err.Error()
	}
	b.mu.Lock()
	b.manifest = info
	b.mu.Unlock()

	if info == b.told {
		return
	}
	b.told = info
	if err != nil {
		b.log.Warn("the seed manifest is not used", "error", err)
	} else {
		b.log.Info("the seed manifest is in force", "seq", info.Seq, "signer", info.Signer, "not_after", info.NotAfter)
	}
}

// read returns the manifest of the file and its signer, with an error if it has expired. It
// raises the mark.
func (b *Bootstrapper) read(ctx context.Context, now time.Time) (Manifest, peer.ID, error) {
	raw, err := b.deps.Manifest()
	if err != nil {
		return Manifest{}, "", fmt.Errorf("the seed manifest cannot be read: %w", err)
	}
	m, signer, expiry := Open(raw, b.trusted, now)
	if signer == "" {
		return Manifest{}, "", expiry
	}
	payload, err := encode(m)
	if err != nil {
		return Manifest{}, "", fmt.Errorf("encode the seed manifest: %w", err)
	}
	digest := b3.Sum(payload)
	if err := b.mark.check(m, digest); err != nil {
		return Manifest{}, "", err
	}
	if expiry == nil && (b.mark.signer == "" || m.Seq > b.mark.seq) {
		b.mark = mark{m.Seq, signer, digest}
		b.store(ctx) // before use, so that older manifests are refused after a crash too
	}
	return m, signer, expiry
}
