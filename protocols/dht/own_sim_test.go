package dht

import (
	"github.com/ipfs/go-cid"

	"allium/protocols/b3"
)

func cidOf(r b3.Root) cid.Cid { return cid.NewCidV1(cid.Raw, r.Multihash()) }

// forget drops the records of one object: a lookup then has to ask.
func (p *providerStore) forget(r b3.Root) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.keys[r]) > 0 {
		p.drop(r, 0)
	}
}

func (s *Service) holdsOwn(b3.Root) bool { return false }
