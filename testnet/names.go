package testnet

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/gateway/api"
	"allium/internal/keyfile"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/zones"
	"allium/testnet/script"
)

// nameTTL is the TTL of the names that steps publish: the shortest one, so that a scenario need
// not wait long for what gossip has lost.
const nameTTL = 5 * time.Second

// zoneKey returns the key of the zone in which the nodes of a network publish: the same in every
// network of a seed.
func zoneKey(seed uint64) (crypto.PrivKey, error) {
	secret := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("allium testnet zone"), seed))
	return crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(secret[:]))
}

// named returns the name of a label in the zone of the networks of a seed.
func named(seed uint64, label string) (string, error) {
	key, err := zoneKey(seed)
	if err != nil {
		return "", err
	}
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		return "", err
	}
	return label + "." + zone.String(), nil
}

// giveZone writes the key of the zone of the networks of a seed into the home of a member that lacks it.
func giveZone(ctx context.Context, m *Member, seed uint64) error {
	key, err := zoneKey(seed)
	if err != nil {
		return err
	}
	text, err := keyfile.Encode(key)
	if err != nil {
		return err
	}
	z, err := zones.Open(m.Home, zones.Config{}, false)
	if err != nil {
		return err
	}
	_, err = z.Import(ctx, text, name.Label{})
	return err
}

// publish plays a step that publishes a name. Its error is why no peer took the record.
func (p *Player) publish(ctx context.Context, s script.Step) (Said, error) {
	root, err := p.root(s.Name)
	if err != nil {
		return nil, err
	}
	full, err := named(p.seed, s.Label)
	if err != nil {
		return nil, err
	}
	m := p.member(s)
	if err := giveZone(ctx, m, p.seed); err != nil {
		return nil, fmt.Errorf("give %s the key of the zone: %w", m.Name, err)
	}
	request := api.PublishRequest{Name: full, Value: root.String(), TTLMS: nameTTL.Milliseconds()}
	return p.until(ctx, s, func(ctx context.Context) (Said, error) {
		own, err := m.API.PublishName(ctx, request)
		if err != nil {
			return nil, err
		}
		if own.Error != nil {
			return nil, own.Error.Err(status.Internal.Code())
		}
		return Said{fmt.Sprintf("%s is %s, number %d: %d peers took the record of %s", s.Label,
			s.Name, own.Seq, own.Peers,
			m.Name)}, nil
	})
}

// resolve plays a step that asks the network for a name.
func (p *Player) resolve(ctx context.Context, s script.Step) (Said, error) {
	full, err := named(p.seed, s.Label)
	if err != nil {
		return nil, err
	}
	m := p.member(s)
	return p.until(ctx, s, func(ctx context.Context) (Said, error) {
		r, err := m.API.Resolve(ctx, full, api.Query{Fresh: true})
		if err != nil {
			return nil, err
		}
		return Said{fmt.Sprintf("%s finds that %s is %s, number %d", m.Name, s.Label, p.called(r.Target), r.Seq)}, nil
	})
}

// lookName sees for what a name stands on a node, as its users see it.
func (p *Player) lookName(ctx context.Context, m *Member, s script.Step, want b3.Root) (string, bool, error) {
	full, err := named(p.seed, s.Label)
	if err != nil {
		return "", false, err
	}
	r, err := m.API.Resolve(ctx, full, api.Query{})
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%s is %s, number %d", s.Label, p.called(r.Target), r.Seq), r.Target == want, nil
}

// called returns the name of content, or its address if it has none.
func (p *Player) called(root b3.Root) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, r := range p.roots {
		if r == root {
			return name
		}
	}
	return root.String()
}
