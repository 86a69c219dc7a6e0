package bed

import (
	"context"
	"crypto/rand"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"

	"allium/node/p2p"
)

// BuildHost is a host as a testnet node has it; without listen it listens where
// such a node does.
func BuildHost(ctx context.Context, listen []string) (host.Host, crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := p2p.ProfileConfig(p2p.Testnet)
	if err != nil {
		return nil, nil, err
	}
	if listen != nil {
		cfg.Listen = listen
	}
	b, err := p2p.New(cfg, p2p.Deps{Key: key, Version: "bench"})
	if err != nil {
		return nil, nil, err
	}
	h, err := b.Build(ctx)
	return h, key, err
}
