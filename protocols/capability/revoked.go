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

// Bounds of what is revoked.
const (
	maxRevoked = 16 << 10
	MaxRevoked = 2 << 20 // bytes of the text, above what maxRevoked lines have
)

// revokedHead begins the text of a list of what is revoked.
const revokedHead = "allium-capability-revoked/"

// forever is the end of what never expires.
const forever = int64(1)<<62 - 1

// Revocations are capabilities, and root keys, that are worth nothing any more,
// each until what it revokes has expired anyway. It does not change: Revoke
// returns another.
type Revocations struct {
	ids      map[nonce]int64  // seconds since 1970
	branches map[nonce]int64  // the same
	keys     map[uint32]int64 // the same
}

// Len is how many there are.
func (r Revocations) Len() int { return len(r.ids) + len(r.branches) + len(r.keys) }

// has reports whether a capability is revoked with all that was made of it.
func (r Revocations) has(i identity) bool {
	_, byID := r.ids[i.nonce]
	_, byKey := r.keys[i.kid]
	return byID || byKey
}

// hasBranch reports whether what is made of a capability from some caveat on is.
func (r Revocations) hasBranch(name nonce) bool {
	_, ok := r.branches[name]
	return ok
}

// Revocation is what is to be revoked.
type Revocation struct {
	id     nonce
	branch bool   // id is the name of a branch
	kid    uint32 // not 0: the key, and not the id
	until  int64
}

// RevokeToken revokes the capability that the token is of, with all that was
// made of it by attenuation, before and after.
func RevokeToken(token string) (Revocation, error) {
	t, err := decode(token)
	if err != nil {
		return Revocation{}, err
	}
	// What it was made of may live longer, and the caveats of that are among
	// these: as long as the latest of them says, it is not longer.
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

// RevokeBranch revokes the capability as the token has it, with all that was
// made of that by attenuation, and nothing of what it was made of. Who narrowed
// the same one by the same words has the same token, and so the same branch.
func RevokeBranch(token string) (Revocation, error) {
	t, err := decode(token)
	if err != nil {
		return Revocation{}, err
	}
	names := t.branches()
	if len(names) == 0 {
		return Revocation{id: t.nonce, until: forever}, nil // it is its own origin
	}
	until := forever
	for _, raw := range t.m.Caveats() {
		if c, err := parseCaveat(string(raw.Id)); err == nil && c.kind == KindExpiry {
			until = min(until, c.n)
		}
	}
	return Revocation{id: names[len(names)-1], branch: true, until: until}, nil
}

// RevokeBranchID revokes a branch by its name, as the audit log shows it: 32 hex
// digits. When it expires is not known, so it stays revoked forever.
func RevokeBranchID(name string) (Revocation, error) {
	n, err := parseNonce(name)
	if err != nil {
		return Revocation{}, status.Errorf(status.BadRequest, "%q is not the name of a branch: %w", clip(name), err)
	}
	return Revocation{id: n, branch: true, until: forever}, nil
}

// RevokeID revokes the capability of that id, as logs show it: 32 hex digits.
// When it expires is not known, so it stays revoked forever.
func RevokeID(id string) (Revocation, error) {
	n, err := parseNonce(id)
	if err != nil {
		return Revocation{}, status.Errorf(status.BadRequest, "%q is not the id of a capability: %w", clip(id), err)
	}
	return Revocation{id: n, until: forever}, nil
}

// RevokeKey revokes all that a root key minted, forever.
func RevokeKey(kid uint32) Revocation { return Revocation{kid: kid, until: forever} }

// String is the id, the branch, or the key.
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

// noRevocations is an empty list to write to.
func noRevocations() Revocations {
	return Revocations{ids: map[nonce]int64{}, branches: map[nonce]int64{}, keys: map[uint32]int64{}}
}

// Revoke returns the list with one more, and without those whose time is past.
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
		return Revocations{}, status.Errorf(status.Conflict, "%d capabilities are revoked and have not expired, at most %d; rotate the root key and retire the old one, which ends all that it minted", r.Len(), maxRevoked)
	}
	return left, nil
}

// Text is the list as its file has it.
func (r Revocations) Text() []byte {
	var b bytes.Buffer
	b.WriteString(revokedHead + "2\n# An id, a branch, or a key, its name or number, and until when the line is needed.\n")
	for _, kid := range slices.Sorted(maps.Keys(r.keys)) {
		fmt.Fprintf(&b, "key %d %s\n", kid, untilText(r.keys[kid]))
	}
	writeNames(&b, "id", r.ids)
	writeNames(&b, "branch", r.branches)
	return withSum(b.Bytes())
}

func writeNames(b *bytes.Buffer, kind string, names map[nonce]int64) {
	for _, n := range slices.SortedFunc(maps.Keys(names), func(a, b nonce) int { return bytes.Compare(a[:], b[:]) }) {
		fmt.Fprintf(b, "%s %s %s\n", kind, n, untilText(names[n]))
	}
}

func untilText(until int64) string {
	if until == forever {
		return "forever"
	}
	return time.Unix(until, 0).UTC().Format(time.RFC3339)
}

// ParseRevocations reads what Text wrote.
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
