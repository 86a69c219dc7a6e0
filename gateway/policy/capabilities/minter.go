package capabilities

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/capability"
)

// The bounds of what a Minter remembers.
const (
	maxMinted = 1024            // capabilities
	maxBehind = 1024            // members that refused the latest key
	mintLife  = 5 * time.Minute // of a capability
	mintReuse = 2 * time.Minute // for so long one is used again
)

// Minter mints the capabilities that this node shows the other members of its cluster, with the ring
// in force. It uses one again for some minutes. Its methods are safe for concurrent use.
type Minter struct {
	verifier *capability.Verifier

	mu     sync.Mutex                      // lock: leaf
	minted *simplelru.LRU[mintKey, minted] // at most maxMinted
	older  *simplelru.LRU[peer.ID, int]    // keys to go back for a member, at most maxBehind
}

type mintKey struct {
	to    peer.ID
	root  b3.Root // zero: any object
	older int
}

type minted struct {
	raw []byte
	at  time.Time
}

// Minter returns a Minter with the ring of c.
func (c *Verifier) Minter() (*Minter, error) {
	m := &Minter{verifier: c.verifier}
	var err error
	if m.minted, err = simplelru.NewLRU[mintKey, minted](maxMinted, nil); err != nil {
		return nil, err
	}
	m.older, err = simplelru.NewLRU[peer.ID, int](maxBehind, nil)
	return m, err
}

// Replicate returns a binary capability for capability.Replicate that counts at one member, for one
// object or, if root is zero, for any. The caller does not change it. The error is not_found if the
// ring has no key.
func (m *Minter) Replicate(to peer.ID, root b3.Root) ([]byte, error) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	older, _ := m.older.Get(to)
	key := mintKey{to, root, older}
	if c, ok := m.minted.Get(key); ok && now.Sub(c.at) < mintReuse && !now.Before(c.at) {
		return c.raw, nil
	}
	raw, err := m.verifier.MintReplicate(to.String(), root, older, mintLife)
	if err != nil {
		return nil, err
	}
	m.minted.Add(key, minted{raw, now})
	return raw, nil
}

// Refused notes that a member knows no key of the latest capability that it was shown. The next one
// for it is minted with the key before, and after the oldest with the latest again: so members
// understand each other while a rotation is copied from node to node.
func (m *Minter) Refused(to peer.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	older, _ := m.older.Get(to)
	for _, key := range m.minted.Keys() {
		if key.to == to {
			m.minted.Remove(key)
		}
	}
	m.older.Add(to, older+1)
}
