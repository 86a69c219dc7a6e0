package capability

import "github.com/zeebo/blake3"

// Derived is a key that was derived from a root key. It tells nothing about the root key.
type Derived [32]byte

// Derive returns a key derived from each root key of the ring, in the order of their ids, for one
// purpose: BLAKE3's derive-key mode with the context. Nodes whose rings have a common root key
// have a common derived key.
func (r Ring) Derive(context string) []Derived {
	keys := make([]Derived, len(r.keys))
	for i, k := range r.keys {
		blake3.DeriveKey(context, k.secret[:], keys[i][:])
	}
	return keys
}

// Derive returns the keys that the ring in force derives. See [Ring.Derive].
func (v *Verifier) Derive(context string) []Derived { return v.state.Load().ring.Derive(context) }
