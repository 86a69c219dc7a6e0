package capability

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	macaroon "gopkg.in/macaroon.v2"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// The bounds of a key ring.
const (
	maxKeys = 64       // most keys
	MaxRing = 16 << 10 // most bytes of the text; maxKeys keys have far fewer
)

// ringHead begins the first line of a ring's text.
const ringHead = "allium-capability-keys/"

// revokesLine is the line of a ring's text that means: something was revoked, so
// the file of revocations must exist.
const revokesLine = "revoked"

const keySize = 32 // bytes of a root key's secret

// Key is a root key without its secret.
type Key struct {
	ID      uint32    `json:"id"`
	Created time.Time `json:"created"`
	Current bool      `json:"current"` // whether it mints new capabilities
}

// rootKey is a root key with its secret. The secret is behind a pointer, so that
// printing a rootKey does not print it.
type rootKey struct {
	id      uint32
	created int64 // seconds since 1970
	secret  *[keySize]byte
}

// Ring is a set of root keys. Nodes with the same ring accept each other's
// capabilities. A Ring is immutable; Rotate and Retire return a new one.
//
// Invariant: keys are in the order of their ids, and the last key is the current
// one, so no id is used twice.
type Ring struct {
	keys    []rootKey
	revokes bool
}

// Revokes reports whether something was revoked under this ring. If so, the file of
// revocations must not be missing.
func (r Ring) Revokes() bool { return r.revokes }

// Revoking returns the ring for which Revokes reports true.
func (r Ring) Revoking() Ring { return Ring{r.keys, true} }

// Keys returns the keys of the ring in the order of their ids.
func (r Ring) Keys() []Key {
	keys := make([]Key, len(r.keys))
	for i, k := range r.keys {
		keys[i] = Key{ID: k.id, Created: time.Unix(k.created, 0).UTC(), Current: i == len(r.keys)-1}
	}
	return keys
}

// String returns the number of keys, and no key.
func (r Ring) String() string { return fmt.Sprintf("%d root keys", len(r.keys)) }

// find returns the secret of a key.
func (r Ring) find(id uint32) (*[keySize]byte, bool) {
	byID := func(k rootKey, id uint32) int { return cmp.Compare(k.id, id) }
	i, ok := slices.BinarySearchFunc(r.keys, id, byID)
	if !ok {
		return nil, false
	}
	return r.keys[i].secret, true
}

// Rotate returns the ring with a new current key. The other keys still verify the
// capabilities that they minted. The error is conflict if the ring is full.
func (r Ring) Rotate(now time.Time) (Ring, error) {
	k := rootKey{id: 1, created: now.Unix(), secret: new([keySize]byte)}
	if n := len(r.keys); n > 0 {
		k.id = r.keys[n-1].id + 1
	}
	if len(r.keys) >= maxKeys || k.id == 0 {
		return Ring{}, status.Errorf(status.Conflict,
			"the ring has %d keys, at most %d; retire the oldest with `allium token key retire`", len(r.keys), maxKeys)
	}
	_, _ = rand.Read(k.secret[:]) // never fails
	return Ring{append(slices.Clip(r.keys), k), r.revokes}, nil
}

// Retire returns the ring without a key. Capabilities that the key minted are no
// longer valid. The error is not_found for an unknown key, and conflict for the
// current key, which must be replaced first.
func (r Ring) Retire(id uint32) (Ring, error) {
	i := slices.IndexFunc(r.keys, func(k rootKey) bool { return k.id == id })
	switch {
	case i < 0:
		return Ring{}, status.Errorf(status.NotFound, "the ring has no key %d; `allium token key ls` lists them", id)
	case i == len(r.keys)-1:
		return Ring{}, status.Errorf(status.Conflict,
			"key %d is the current one; make another with `allium token key rotate` first", id)
	}
	return Ring{slices.Delete(slices.Clone(r.keys), i, i+1), r.revokes}, nil
}

// Text returns the ring in its file format, with the secrets. Anyone who reads it
// can mint any capability.
func (r Ring) Text() []byte {
	var b bytes.Buffer
	b.WriteString(ringHead + "2\n# Whoever reads this file may mint capabilities for every node that has it. " +
		"The last key is the current one.\n")
	for _, k := range r.keys {
		created := time.Unix(k.created, 0).UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, "%d %s %s\n", k.id, created, text.EncodeToString(k.secret[:]))
	}
	if r.revokes {
		b.WriteString(revokesLine + "\n")
	}
	return withSum(b.Bytes())
}

// ParseRing parses the result of [Ring.Text]. Errors are corrupt; they give the
// number of the line and never quote it.
func ParseRing(p []byte) (Ring, error) {
	var r Ring
	err := eachLine(p, ringHead, MaxRing, func(f []string) error {
		if len(f) == 1 && f[0] == revokesLine && !r.revokes {
			r.revokes = true
			return nil
		}
		if len(f) != 3 {
			return fmt.Errorf("is not an id, a time and a key")
		}
		id, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil || id == 0 || len(r.keys) > 0 && uint32(id) <= r.keys[len(r.keys)-1].id {
			return fmt.Errorf("does not begin with an id above the one before")
		}
		created, err := parseTime(f[1])
		if err != nil {
			return fmt.Errorf("has no time like 2026-01-02T15:04:05Z in the middle")
		}
		secret, err := text.DecodeString(f[2])
		if err != nil || len(secret) != keySize {
			return fmt.Errorf("does not end with a key of %d bytes", keySize)
		}
		if len(r.keys) == maxKeys {
			return fmt.Errorf("is one key more than the %d that are allowed", maxKeys)
		}
		r.keys = append(r.keys, rootKey{id: uint32(id), created: created, secret: (*[keySize]byte)(secret)})
		return nil
	})
	if err == nil && len(r.keys) == 0 {
		err = fmt.Errorf("it has no key")
	}
	if err != nil {
		return Ring{}, status.Errorf(status.Corrupt, "not a key ring: %w", err)
	}
	return r, nil
}

// sumPrefix begins the last line of a text of version 2: the BLAKE3 hash of all
// bytes before the line. It detects changed bytes and missing lines. A text of
// version 1, which earlier nodes and people write, has no such line.
const sumPrefix = "# blake3 "

// withSum returns p with the line of its hash appended.
func withSum(p []byte) []byte { return fmt.Appendf(p, "%s%s\n", sumPrefix, b3.Sum(p).Hex()) }

// checkSum returns an error unless p ends with the hash of the bytes before.
func checkSum(p []byte) error {
	at := bytes.LastIndex(p, []byte("\n"+sumPrefix)) + 1
	if at == 0 || !bytes.Equal(withSum(bytes.Clone(p[:at])), p) {
		return fmt.Errorf("it is not as it was written: a byte was changed or the end is missing")
	}
	return nil
}

// eachLine calls f with the fields of each line of p after the first, except empty
// lines and comments. The first line must be head and the version 1 or 2. p may
// have at most maxBytes bytes.
func eachLine(p []byte, head string, maxBytes int, f func(fields []string) error) error {
	if len(p) > maxBytes {
		return fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	n := 0
	for line := range strings.Lines(string(p)) {
		line = strings.TrimSpace(line)
		if n++; n == 1 {
			if line == head+"2" {
				if err := checkSum(p); err != nil {
					return err
				}
			} else if line != head+"1" {
				return fmt.Errorf("its first line is neither %q nor %q", head+"1", head+"2")
			}
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := f(strings.Fields(line)); err != nil {
			return fmt.Errorf("line %d %w", n, err)
		}
	}
	if n == 0 {
		return fmt.Errorf("it is empty")
	}
	return nil
}

// Mint returns a new token, signed with the current key. The caveats must include
// an expiry later than now.
func (r Ring) Mint(now time.Time, caveats ...Caveat) (string, error) {
	if len(r.keys) == 0 {
		return "", status.Errorf(status.NotFound, "there is no root key to mint with")
	}
	expires := int64(math.MaxInt64)
	for _, c := range caveats {
		if c.kind == KindExpiry {
			expires = min(expires, c.n)
		}
	}
	switch {
	case expires == math.MaxInt64:
		return "", status.Errorf(status.BadRequest,
			"a capability must expire; add a caveat such as \"exp < 2026-01-02T15:04:05Z\"")
	case expires <= now.Unix():
		return "", status.Errorf(status.BadRequest, "the capability would have expired at %s",
			time.Unix(expires, 0).UTC().Format(time.RFC3339))
	}
	k := r.keys[len(r.keys)-1]
	id := identity{kid: k.id, issued: now.Unix()}
	_, _ = rand.Read(id.nonce[:]) // never fails
	m, err := macaroon.New(k.secret[:], id.bytes(), "", macaroon.V2)
	if err != nil {
		return "", status.Errorf(status.Internal, "make the macaroon: %w", err)
	}
	for _, c := range caveats {
		if err := m.AddFirstPartyCaveat([]byte(c.String())); err != nil {
			return "", status.Errorf(status.Internal, "add the caveat: %w", err)
		}
	}
	return encode(m)
}

// Identify verifies only that a key of the ring signed the token, and returns what
// the token says. It ignores expiry and revocation.
func (r Ring) Identify(token string) (Info, error) {
	t, err := decode(token)
	if err != nil {
		return Info{}, err
	}
	if _, err := r.verify(t); err != nil {
		return Info{}, err
	}
	return Inspect(token)
}

// verify verifies the signature with the chain of HMACs and returns the caveats.
func (r Ring) verify(t *token) ([]string, error) {
	key, ok := r.find(t.kid)
	if !ok {
		return nil, unauthenticated(UnknownKey,
			"the capability was minted by root key %d, which this node does not have (any more); ask for a new one",
			t.kid)
	}
	caveats, err := t.m.VerifySignature(key[:], nil)
	if err != nil {
		return nil, unauthenticated(BadSignature,
			"the capability's signature is wrong: it was changed, or minted by key %d of another ring", t.kid)
	}
	return caveats, nil
}
