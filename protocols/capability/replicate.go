package capability

import (
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// MintReplicate mints a capability for [Replicate], as a binary macaroon, that counts at the node
// audience for the given life, at most [ReplicateLife]. It is for one object unless root is zero. It
// is minted with the latest key of the ring; older says how many keys to go back, as a node that has
// not got the latest key yet accepts the one before. Past the oldest key it begins anew. The error is
// not_found if the ring has no key.
func (v *Verifier) MintReplicate(audience string, root b3.Root, older int, life time.Duration) ([]byte, error) {
	ring, now := v.state.Load().ring, v.now()
	n := len(ring.keys)
	if n == 0 {
		return nil, status.Errorf(status.NotFound, "there is no root key to mint with")
	}
	ring.keys = ring.keys[:n-older%n]
	expires := now.Add(min(life, ReplicateLife)).UTC().Format(time.RFC3339)
	texts := []string{"op in " + string(Replicate), "exp < " + expires, "aud = " + audience}
	if !root.IsZero() {
		texts = append(texts, "obj ^= "+root.String())
	}
	caveats := make([]Caveat, len(texts))
	for i, s := range texts {
		var err error
		if caveats[i], err = parseCaveat(s); err != nil {
			return nil, err
		}
	}
	token, err := ring.Mint(now, caveats...)
	if err != nil {
		return nil, err
	}
	return text.DecodeString(token)
}
