package name

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/ipfs/go-cid"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multibase"

	"allium/protocols/status"
)

// Zone is an Ed25519 public key. Its owner alone publishes names in the zone. Zones are
// comparable. The zero Zone is no zone.
type Zone [ed25519.PublicKeySize]byte

// idPrefix begins the peer ID of every Ed25519 key: the identity multihash of 36 bytes, and in
// it the protobuf of a public key of type 1 with 32 bytes. The key follows.
const idPrefix = "\x00\x24\x08\x01\x12\x20"

var errNotEd25519 = errors.New("it is not the id of an Ed25519 key")

// ZoneOf returns the zone of a public key. A key of another type is bad_address.
func ZoneOf(key crypto.PubKey) (Zone, error) {
	if key.Type() != crypto.Ed25519 {
		return Zone{}, status.Errorf(status.BadAddress, "a zone needs an Ed25519 key, not one of type %s", key.Type())
	}
	raw, err := key.Raw()
	if err != nil {
		return Zone{}, status.Errorf(status.BadAddress, "read the key: %w", err)
	}
	return Zone(raw), nil
}

// zoneFromID reads the binary form of a peer ID.
func zoneFromID(id string) (Zone, error) {
	key, ok := strings.CutPrefix(id, idPrefix)
	if !ok || len(key) != len(Zone{}) || Zone([]byte(key)) == (Zone{}) {
		return Zone{}, errNotEd25519
	}
	return Zone([]byte(key)), nil
}

// ParseZone parses the form that [Zone.String] returns, k51…, and that of peer IDs, 12D3….
// Anything else is bad_address: other types of keys, other encodings, upper case.
func ParseZone(s string) (Zone, error) {
	z, err := parseZone(s)
	if err != nil {
		return Zone{}, status.Errorf(status.BadAddress,
			"%q is not the key of a zone: %w; it looks like k51… or 12D3…", clip(s), err)
	}
	return z, nil
}

func parseZone(s string) (Zone, error) {
	var id peer.ID
	switch {
	case len(s) > maxZoneInput:
		return Zone{}, fmt.Errorf("it has more than %d bytes", maxZoneInput)
	case strings.HasPrefix(s, "k"):
		c, err := cid.Decode(s)
		if err != nil {
			return Zone{}, err
		}
		if id, err = peer.FromCid(c); err != nil {
			return Zone{}, err
		}
	case strings.HasPrefix(s, "1"):
		var err error
		if id, err = peer.Decode(s); err != nil {
			return Zone{}, err
		}
	default:
		return Zone{}, errors.New("it starts neither with k51 nor with 12D3")
	}
	z, err := zoneFromID(string(id))
	if err != nil {
		return Zone{}, err
	}
	if s[0] == 'k' && z.String() != s {
		return Zone{}, errors.New("it is not in its one form")
	}
	return z, nil
}

// String returns the key as IPNS shows keys: a CIDv1 with codec libp2p-key in base36, 62
// characters that begin with k51.
func (z Zone) String() string {
	s, err := peer.ToCid(z.ID()).StringOfBase(multibase.Base36)
	if err != nil {
		return "" // base36 is known
	}
	return s
}

// ID returns the key as a peer ID.
func (z Zone) ID() peer.ID { return peer.ID(idPrefix + string(z[:])) }

// IsZero reports whether z is the zero Zone.
func (z Zone) IsZero() bool { return z == Zone{} }

// Signs reports whether key is the key of the zone.
func (z Zone) Signs(key crypto.PubKey) bool {
	of, err := ZoneOf(key)
	return err == nil && of == z
}

// MarshalText returns the form of [Zone.String], so that JSON shows it.
func (z Zone) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// UnmarshalText parses as [ParseZone] does. An error leaves z as it was.
func (z *Zone) UnmarshalText(text []byte) error {
	parsed, err := ParseZone(string(text))
	if err == nil {
		*z = parsed
	}
	return err
}
