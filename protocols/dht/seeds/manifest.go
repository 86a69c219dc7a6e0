package seeds

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/record"
	"allium/protocols/status"
)

// signed is the record kind of a signed manifest. The text form is a PEM block of type
// blockType.
var signed = record.KindOf("seeds")

const blockType = "ALLIUM SEEDS"

// Manifest is a list of seeds that an authority signs.
type Manifest struct {
	Seq      uint64          // of two manifests, the higher number is valid
	NotAfter time.Time       // end, in whole seconds; at most MaxLife from now
	Seeds    []peer.AddrInfo // 1 to 256, each with 1 to 16 addresses without the peer ID
}

// wireManifest is the payload: deterministic CBOR, at most 64 KiB when signed.
type wireManifest struct {
	Seq      uint64     `cbor:"1,keyasint"`
	NotAfter uint64     `cbor:"2,keyasint"` // seconds since 1970
	Seeds    []wireSeed `cbor:"3,keyasint"`
}

type wireSeed struct {
	ID    []byte   `cbor:"1,keyasint"`
	Addrs [][]byte `cbor:"2,keyasint"`
}

// Sign returns m signed with key, as text for a file. It refuses a manifest that no node
// would accept: status.BadRequest, or status.BodyCap if it is too large.
func Sign(key crypto.PrivKey, m Manifest) ([]byte, error) {
	payload, err := encode(m)
	if err == nil {
		err = checkLife(m, time.Now())
	}
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "the manifest cannot be signed: %w", err)
	}
	raw, err := signed.Seal(key, payload)
	if err != nil {
		return nil, fmt.Errorf("sign the manifest: %w", err)
	}
	if len(raw) > maxEnvelope {
		return nil, status.Errorf(status.BodyCap,
			"the manifest has %d bytes, more than the %d that nodes read: list fewer seeds or addresses",
			len(raw), maxEnvelope)
	}
	return record.EncodeText(blockType, raw), nil
}

// Open verifies raw, the text that Sign returned, and returns the manifest and its signer. The
// signer must be one of trusted, and the manifest must be valid at now. The error is
//
//   - status.BodyCap: raw is longer than any manifest;
//   - status.BadFrame: raw is not exactly one PEM block of the right type;
//   - status.BadSignature: it is not signed, signed as another type, or signed by a peer
//     outside trusted;
//   - status.BadRequest: it is signed but violates a bound;
//   - status.Stale: it has expired. Manifest and signer are returned in this case too.
func Open(raw []byte, trusted []peer.ID, now time.Time) (Manifest, peer.ID, error) {
	m, signer, err := Verify(raw)
	if err != nil {
		return Manifest{}, "", err
	}
	if !slices.Contains(trusted, signer) {
		return Manifest{}, "", status.Errorf(status.BadSignature, "the seed manifest is signed by %s, "+
			"which is no authority: check where it comes from, or add the signer to dht.seed_authorities", signer)
	}
	if err := checkLife(m, now); err != nil {
		return Manifest{}, "", status.Errorf(status.BadRequest, "the seed manifest is malformed: %w", err)
	}
	if !m.NotAfter.After(now) {
		return m, signer, expired(m)
	}
	return m, signer, nil
}

// expired returns the error for an expired manifest.
func expired(m Manifest) error {
	return status.Errorf(status.Stale,
		"the seed manifest expired at %s: have the authority sign a new one and replace the file",
		m.NotAfter.UTC().Format(time.RFC3339))
}

// Verify is Open without the checks of the signer and of the time.
func Verify(raw []byte) (Manifest, peer.ID, error) {
	env, err := decodeText(raw)
	if err != nil {
		return Manifest{}, "", err
	}
	payload, key, err := signed.Open(env)
	switch {
	case errors.Is(err, record.ErrUnsigned):
		return Manifest{}, "", status.Errorf(status.BadSignature, "the seed manifest is not signed: %w", err)
	case errors.Is(err, record.ErrType):
		return Manifest{}, "", status.Errorf(status.BadSignature, "the signed content is not a seed manifest: %w", err)
	case err != nil:
		return Manifest{}, "", status.Errorf(status.BadSignature, "the seed manifest's signature is invalid: %w", err)
	}
	signer, err := peer.IDFromPublicKey(key)
	if err != nil {
		return Manifest{}, "", status.Errorf(status.BadSignature, "the seed manifest's key has no peer id: %w", err)
	}
	m, err := decode(payload)
	if err != nil {
		return Manifest{}, "", status.Errorf(status.BadRequest, "the seed manifest is malformed: %w", err)
	}
	return m, signer, nil
}

// decodeText returns the envelope in the text of a file.
func decodeText(text []byte) ([]byte, error) {
	raw, err := record.DecodeText(blockType, text, maxText)
	switch {
	case errors.Is(err, record.ErrTextLong):
		return nil, status.Errorf(status.BodyCap, "the seed manifest is longer than %d bytes", maxText)
	case err != nil:
		return nil, status.Errorf(status.BadFrame, "the file is no seed manifest: "+
			"it must be one block from -----BEGIN %s----- to its END, and nothing else", blockType)
	case len(raw) > maxEnvelope:
		return nil, status.Errorf(status.BodyCap, "the seed manifest has %d bytes, more than %d", len(raw), maxEnvelope)
	}
	return raw, nil
}

// encode returns the payload of m.
func encode(m Manifest) ([]byte, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	w := wireManifest{Seq: m.Seq, NotAfter: uint64(m.NotAfter.Unix())}
	for _, s := range m.Seeds {
		w.Seeds = append(w.Seeds, wireSeed{ID: []byte(s.ID), Addrs: addrBytes(s.Addrs)})
	}
	return canonical.Marshal(w)
}

// decode returns the manifest of a payload.
func decode(payload []byte) (Manifest, error) {
	var w wireManifest
	if err := canonical.Unmarshal(payload, &w); err != nil {
		return Manifest{}, err
	}
	notAfter, err := parseTime(w.NotAfter)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Seq: w.Seq, NotAfter: notAfter}
	for i, s := range w.Seeds {
		id, err := parseID(s.ID)
		if err != nil {
			return Manifest{}, fmt.Errorf("seed %d: %w", i+1, err)
		}
		addrs, err := parseAddrs(s.Addrs, maxSeedAddrs)
		if err != nil {
			return Manifest{}, fmt.Errorf("seed %s: %w", id, err)
		}
		m.Seeds = append(m.Seeds, peer.AddrInfo{ID: id, Addrs: addrs})
	}
	return m, check(m)
}

// check checks the bounds of a manifest.
func check(m Manifest) error {
	if m.NotAfter.Unix() < 0 {
		return errors.New("it ends before 1970")
	}
	if len(m.Seeds) == 0 || len(m.Seeds) > maxSeeds {
		return fmt.Errorf("it has %d seeds, not 1 to %d", len(m.Seeds), maxSeeds)
	}
	ids := make(map[peer.ID]bool, len(m.Seeds))
	for _, s := range m.Seeds {
		if !wellFormed(s.ID) {
			return fmt.Errorf("%q is not a peer ID", string(s.ID))
		}
		if ids[s.ID] {
			return fmt.Errorf("seed %s appears twice", s.ID)
		}
		ids[s.ID] = true
		if err := checkAddrs(s.Addrs, maxSeedAddrs); err != nil {
			return fmt.Errorf("seed %s: %w", s.ID, err)
		}
	}
	return nil
}

func checkLife(m Manifest, now time.Time) error {
	if m.NotAfter.After(now.Add(MaxLife + clockSkew)) {
		return fmt.Errorf("it ends at %s, more than a year from now", m.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
