package capability

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	macaroon "gopkg.in/macaroon.v2"

	"allium/protocols/status"
)

// The bounds of a token (SPEC §10, OAP1.md §7).
const (
	MaxToken   = 4 << 10 // most bytes of the macaroon
	MaxCaveats = 32      // most caveats
)

// text is the text encoding of a token: base64url without padding. Strict requires
// the unused bits of the last character to be zero, so a token has one text.
var text = base64.RawURLEncoding.Strict()

// The id of a macaroon: 1 ‖ kid u32 ‖ nonce ‖ issued-at i64, big-endian, seconds.
const (
	idVersion = 1
	nonceSize = 16
	idSize    = 1 + 4 + nonceSize + 8
)

// nonce identifies a capability together with everything attenuated from it. A
// branch has a name of the same type.
type nonce [nonceSize]byte

func (n nonce) String() string { return hex.EncodeToString(n[:]) }

// identity is the id of a macaroon.
type identity struct {
	kid    uint32 // number of the root key
	nonce  nonce
	issued int64 // seconds since 1970
}

func (i identity) bytes() []byte {
	p := append(make([]byte, 0, idSize), idVersion)
	p = binary.BigEndian.AppendUint32(p, i.kid)
	p = append(p, i.nonce[:]...)
	return binary.BigEndian.AppendUint64(p, uint64(i.issued))
}

// parseIdentity parses idSize bytes.
func parseIdentity(p []byte) identity {
	i := identity{kid: binary.BigEndian.Uint32(p[1:]), issued: int64(binary.BigEndian.Uint64(p[5+nonceSize:]))}
	copy(i.nonce[:], p[5:])
	return i
}

// token is a decoded macaroon. Nothing in it is verified.
type token struct {
	identity
	m macaroon.Macaroon
}

// branches returns a name for the capability after each of its caveats. A name is
// a hash of the id and the caveats up to there, in order. A token attenuated from
// this one has the same names, followed by more.
func (t *token) branches() []nonce {
	caveats := t.m.Caveats()
	names := make([]nonce, len(caveats))
	at := sha256.Sum256(t.bytes())
	var p []byte
	for i, c := range caveats {
		p = append(append(p[:0], at[:]...), c.Id...)
		at = sha256.Sum256(p)
		names[i] = nonce(at[:nonceSize])
	}
	return names
}

// decode parses the text of a token. It checks the encoding and the bounds, not the
// signature.
func decode(s string) (*token, error) {
	if len(s) > text.EncodedLen(MaxToken) {
		return nil, malformed("it has more than %d bytes", MaxToken)
	}
	if strings.ContainsAny(s, "\r\n") { // the base64 decoder would skip them
		return nil, malformed("it contains line breaks")
	}
	raw, err := text.DecodeString(s)
	if err != nil {
		return nil, malformed("it is not base64url without padding")
	}
	if err := scan(raw); err != nil {
		return nil, err
	}
	t := &token{}
	if err := t.m.UnmarshalBinary(raw); err != nil {
		return nil, malformed("it is not a macaroon of version 2")
	}
	t.identity = parseIdentity(raw[idStart:])
	return t, nil
}

// The field types of a macaroon of version 2. A field is a type, a length and that
// many bytes.
const (
	fieldEnd       = 0 // has no length
	fieldID        = 2
	fieldSignature = 6

	idStart       = 3 // after the version, the type and the length
	signatureSize = 32
)

// scan checks the encoding of a macaroon before decode allocates memory for it. The
// macaroon must have an id of version 1, first-party caveats, a signature and
// shortest lengths. It must not have a location, which no signature covers.
func scan(p []byte) error {
	if len(p) < idStart+idSize+1 || p[0] != 2 || p[1] != fieldID || p[2] != idSize || p[idStart] != idVersion ||
		p[idStart+idSize] != fieldEnd {
		return malformed("its beginning is not that of a capability")
	}
	p = p[idStart+idSize+1:]
	caveats := 0
	for ; len(p) > 0 && p[0] == fieldID; caveats++ {
		size, n := binary.Uvarint(p[1:])
		if n <= 0 || n > 1 && p[n] == 0 || size >= uint64(len(p)-1-n) || p[1+n+int(size)] != fieldEnd {
			return malformed("caveat %d is incomplete, or is for a third party", caveats+1)
		}
		p = p[1+n+int(size)+1:]
	}
	if caveats > MaxCaveats {
		return malformed("it has %d caveats, at most %d", caveats, MaxCaveats)
	}
	if len(p) != 3+signatureSize || p[0] != fieldEnd || p[1] != fieldSignature || p[2] != signatureSize {
		return malformed("its end is not that of a capability")
	}
	return nil
}

func malformed(format string, args ...any) *status.Error {
	err := unauthenticated(Malformed, format, args...)
	err.Message = "this is not a capability: " + err.Message
	return err
}

// Text returns the text of a capability in its binary form, which peers send (OAP1 §7).
// Nothing is checked; see [Verifier.Verify].
func Text(raw []byte) string { return text.EncodeToString(raw) }

// encode returns the text of a token.
func encode(m *macaroon.Macaroon) (string, error) {
	raw, err := m.MarshalBinary()
	if err != nil {
		return "", status.Errorf(status.Internal, "encode the capability: %w", err)
	}
	if n := len(m.Caveats()); n > MaxCaveats {
		return "", status.Errorf(status.BadRequest, "the capability would have %d caveats, at most %d", n, MaxCaveats)
	}
	if len(raw) > MaxToken {
		return "", status.Errorf(status.BadRequest,
			"the capability would have %d bytes, at most %d", len(raw), MaxToken)
	}
	return text.EncodeToString(raw), nil
}

// Attenuate returns the token with additional caveats: it allows less. Attenuate needs no key and does not verify the
// token.
func Attenuate(token string, caveats ...Caveat) (string, error) {
	t, err := decode(token)
	if err != nil {
		return "", err
	}
	for _, c := range caveats {
		if err := t.m.AddFirstPartyCaveat([]byte(c.String())); err != nil {
			return "", status.Errorf(status.Internal, "add the caveat: %w", err)
		}
	}
	return encode(&t.m)
}
