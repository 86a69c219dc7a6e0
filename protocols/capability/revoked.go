package capability

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/protocols/status"
)

// The bounds of a list of revocations.
const (
	maxRevoked = 16 << 10 // most revocations
	MaxRevoked = 2 << 20  // most bytes of the text; maxRevoked lines have fewer
)

// revokedHead begins the first line of a list of revocations.
const revokedHead = "allium-capability-revoked/"

// forever is the end of a revocation that never ends, in seconds since 1970.
const forever = int64(1)<<62 - 1

// Revocations is a list of revoked capabilities, branches and root keys. An entry
// is needed until the revoked tokens have expired. Revocations is immutable;
// [Revocations.Revoke] returns a new list.
type Revocations struct {
	ids      map[nonce]int64  // id → needed until, in seconds since 1970
	branches map[nonce]int64  // branch → needed until, in seconds since 1970
	keys     map[uint32]int64 // key number → needed until, in seconds since 1970
}

// Len returns the number of revocations.
func (r Revocations) Len() int { return len(r.ids) + len(r.branches) + len(r.keys) }

// has reports whether the id or the root key of a capability is revoked.
func (r Revocations) has(i identity) bool {
	_, byID := r.ids[i.nonce]
	_, byKey := r.keys[i.kid]
	return byID || byKey
}

// hasBranch reports whether the branch is revoked.
func (r Revocations) hasBranch(name nonce) bool {
	_, ok := r.branches[name]
	return ok
}

// Revocation is one entry to add with [Revocations.Revoke].
type Revocation struct {
	id     nonce
	branch bool   // whether id is the name of a branch
	kid    uint32 // if not 0, the entry revokes this key and ignores id
	until  int64  // seconds since 1970
}

// RevokeToken revokes the token's capability: every token that was minted or
// attenuated with the same id, whether it allows more or less than this one.
func RevokeToken(token string) (Revocation, error) {
	t, err := decode(token)
	if err != nil {
		return Revocation{}, err
	}
	// The minted token may expire later than this one. Its expiry is one of these
	// caveats, so the latest one is late enough.
	until := int64(0)
	for _, raw := range t.m.Caveats() {
		if c, err := parseCaveat(string(raw.Id)); err == nil && c.kind == KindExpiry {
			until = max(until, c.n)
		}
	}
	if until == 0 {
		until = forever
	}
	return Revocation{id: t.nonce, until: until}, nil
}

// RevokeBranch revokes the token and everything attenuated from it. The token that
// it was attenuated from stays valid. Anyone who added the same caveats to the same
// token has the same token, and so the same branch.
func RevokeBranch(token string) (Revocation, error) {
	t, err := decode(token)
	if err != nil {
		return Revocation{}, err
	}
	names := t.branches()
	if len(names) == 0 {
		return Revocation{id: t.nonce, until: forever}, nil // without caveats, the branch is the capability
	}
	until := forever
	for _, raw := range t.m.Caveats() {
		if c, err := parseCaveat(string(raw.Id)); err == nil && c.kind == KindExpiry {
			until = min(until, c.n)
		}
	}
	return Revocation{id: names[len(names)-1], branch: true, until: until}, nil
}

// RevokeBranchID revokes a branch by its name, 32 hex digits, which the audit log
// shows. The name does not tell the expiry, so the branch stays revoked forever.
func RevokeBranchID(name string) (Revocation, error) {
	n, err := parseNonce(name)
	if err != nil {
		return Revocation{}, status.Errorf(status.BadRequest, "%q is not the name of a branch: %w", clip(name), err)
	}
	return Revocation{id: n, branch: true, until: forever}, nil
}

// RevokeID revokes a capability by its id, 32 hex digits, which logs show. The id
// does not tell the expiry, so the capability stays revoked forever.
func RevokeID(id string) (Revocation, error) {
	n, err := parseNonce(id)
	if err != nil {
		return Revocation{}, status.Errorf(status.BadRequest, "%q is not the id of a capability: %w", clip(id), err)
	}
	return Revocation{id: n, until: forever}, nil
}

// RevokeKey revokes everything that a root key minted, forever.
func RevokeKey(kid uint32) Revocation { return Revocation{kid: kid, until: forever} }

// String returns "key N", "branch NAME" or the id.
func (r Revocation) String() string {
	switch {
	case r.kid != 0:
		return fmt.Sprintf("key %d", r.kid)
	case r.branch:
		return "branch " + r.id.String()
	default:
		return r.id.String()
	}
}

func parseNonce(s string) (nonce, error) {
	var n nonce
	if len(s) != 2*nonceSize || strings.ToLower(s) != s {
		return n, fmt.Errorf("it must have %d lowercase hex digits", 2*nonceSize)
	}
	if _, err := hex.Decode(n[:], []byte(s)); err != nil {
		return n, fmt.Errorf("it must have %d lowercase hex digits", 2*nonceSize)
	}
	return n, nil
}

// noRevocations returns an empty list with maps that can be written.
func noRevocations() Revocations {
	return Revocations{ids: map[nonce]int64{}, branches: map[nonce]int64{}, keys: map[uint32]int64{}}
}

// Revoke returns the list with add and without entries that are no longer needed.
// The error is conflict if the list is full.
func (r Revocations) Revoke(now time.Time, add Revocation) (Revocations, error) {
	left := noRevocations()
	past := now.Unix() - int64(clockSlack/time.Second)
	ended := func(_ nonce, until int64) bool { return until < past }
	maps.Copy(left.ids, r.ids)
	maps.DeleteFunc(left.ids, ended)
	maps.Copy(left.branches, r.branches)
	maps.DeleteFunc(left.branches, ended)
	maps.Copy(left.keys, r.keys)
	switch {
	case add.kid != 0:
		left.keys[add.kid] = max(add.until, left.keys[add.kid])
	case add.branch:
		left.branches[add.id] = max(add.until, left.branches[add.id])
	default:
		left.ids[add.id] = max(add.until, left.ids[add.id])
	}
	if left.Len() > maxRevoked {
		return Revocations{}, status.Errorf(status.Conflict,
			"%d capabilities are revoked and have not expired, at most %d; "+
				"rotate the root key and retire the old key, which ends everything that it minted", r.Len(), maxRevoked)
	}
	return left, nil
}

// Text returns the list in its file format.
func (r Revocations) Text() []byte {
	var b bytes.Buffer
	b.WriteString(revokedHead +
		"2\n# An id, a branch, or a key, its name or number, and until when the line is needed.\n")
	for _, kid := range slices.Sorted(maps.Keys(r.keys)) {
		fmt.Fprintf(&b, "key %d %s\n", kid, untilText(r.keys[kid]))
	}
	writeNames(&b, "id", r.ids)
	writeNames(&b, "branch", r.branches)
	return withSum(b.Bytes())
}

func writeNames(b *bytes.Buffer, kind string, names map[nonce]int64) {
	byBytes := func(a, b nonce) int { return bytes.Compare(a[:], b[:]) }
	for _, n := range slices.SortedFunc(maps.Keys(names), byBytes) {
		fmt.Fprintf(b, "%s %s %s\n", kind, n, untilText(names[n]))
	}
}

func untilText(until int64) string {
	if until == forever {
		return "forever"
	}
	return time.Unix(until, 0).UTC().Format(time.RFC3339)
}

// ParseRevocations parses the result of [Revocations.Text]. Errors are corrupt.
func ParseRevocations(p []byte) (Revocations, error) {
	r := noRevocations()
	err := eachLine(p, revokedHead, MaxRevoked, func(f []string) error {
		if len(f) != 3 {
			return fmt.Errorf("is not \"id ID TIME\", \"branch NAME TIME\" or \"key NUMBER TIME\"")
		}
		until := forever
		if f[2] != "forever" {
			t, err := parseTime(f[2])
			if err != nil {
				return fmt.Errorf("ends neither with a time nor with forever")
			}
			until = t
		}
		if r.Len() == maxRevoked {
			return fmt.Errorf("is one more than the %d that are allowed", maxRevoked)
		}
		switch f[0] {
		case "id", "branch":
			n, err := parseNonce(f[1])
			if err != nil {
				return fmt.Errorf("has no %s: %w", f[0], err)
			}
			names := r.ids
			if f[0] == "branch" {
				names = r.branches
			}
			names[n] = max(until, names[n])
		case "key":
			kid, err := strconv.ParseUint(f[1], 10, 32)
			if err != nil || kid == 0 {
				return fmt.Errorf("has no number of a key")
			}
			r.keys[uint32(kid)] = max(until, r.keys[uint32(kid)])
		default:
			return fmt.Errorf("begins with none of id, branch and key")
		}
		return nil
	})
	if err != nil {
		return Revocations{}, status.Errorf(status.Corrupt, "not a list of what is revoked: %w", err)
	}
	return r, nil
}
