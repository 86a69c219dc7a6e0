package b3

import (
	"encoding/hex"
	"strings"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"

	"allium/protocols/status"
)

// Size is the length of a root and of a chaining value in bytes.
const Size = 32

// prefix starts the printed form of an address.
const prefix = "b3:"

// Root is an object's content address: the BLAKE3-256 of its plain bytes
// (SPEC §1). It is comparable. The zero Root is no object's address and stands
// for "none".
type Root [Size]byte

// Sum returns the address of p.
func Sum(p []byte) Root {
	if len(p) <= GroupSize {
		return groupCV(p, 0, true)
	}
	var s spine
	for len(p) > 0 {
		n := min(len(p), GroupSize)
		s.push(groupCV(p[:n], s.groups, false))
		p = p[n:]
	}
	return s.root()
}

// Parse reads an address as [Root.String] prints it and nothing else. The
// error, bad_address, says what is wrong with s.
func Parse(s string) (Root, error) {
	var r Root
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return r, badAddress(s, "it does not start with "+prefix)
	}
	if len(digits) != 2*Size {
		return r, status.Errorf(status.BadAddress, "b3: %q is not an address: %d digits follow %s, want %d", clip(s), len(digits), prefix, 2*Size)
	}
	for i := range len(digits) {
		c := digits[i]
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		case 'A' <= c && c <= 'F':
			return r, badAddress(s, "its digits must be lowercase")
		default:
			return r, status.Errorf(status.BadAddress, "b3: %q is not an address: digit %d is not hexadecimal", s, i+1)
		}
	}
	// Every digit was checked.
	_, _ = hex.Decode(r[:], []byte(digits))
	return r, nil
}

func badAddress(s, why string) error {
	return status.Errorf(status.BadAddress, "b3: %q is not an address: %s", clip(s), why)
}

// clip bounds what an error repeats of its input.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// String is the printed form: "b3:" and 64 lowercase hex digits.
func (r Root) String() string {
	var b [len(prefix) + 2*Size]byte
	copy(b[:], prefix)
	hex.Encode(b[len(prefix):], r[:])
	return string(b[:])
}

// Hex is the digest alone, as b3sum prints it.
func (r Root) Hex() string { return hex.EncodeToString(r[:]) }

// IsZero reports whether r is the zero Root.
func (r Root) IsZero() bool { return r == Root{} }

// MarshalText is [Root.String]; in JSON an address is its printed form.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is [Parse].
func (r *Root) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// Multihash is the address as DHT keys carry it: blake3 (0x1e), 32 bytes.
func (r Root) Multihash() multihash.Multihash {
	return append(multihash.Multihash{multihash.BLAKE3, Size}, r[:]...)
}

// CID is the address as a CIDv1 with codec raw (0x55). Its String, 59
// characters of base32, is the DNS label of SPEC §1.
func (r Root) CID() cid.Cid { return cid.NewCidV1(cid.Raw, r.Multihash()) }

// FromMultihash is the inverse of [Root.Multihash]. Anything but a 32-byte
// blake3 multihash is bad_address.
func FromMultihash(m []byte) (Root, error) {
	d, err := multihash.Decode(m)
	if err != nil {
		return Root{}, status.Errorf(status.BadAddress, "b3: not a multihash: %w", err)
	}
	if d.Code != multihash.BLAKE3 || d.Length != Size {
		return Root{}, status.Errorf(status.BadAddress, "b3: multihash is %#x with %d bytes, want blake3 (%#x) with %d", d.Code, d.Length, multihash.BLAKE3, Size)
	}
	return Root(d.Digest), nil
}

// FromCID is the inverse of [Root.CID]. Anything but a CIDv1, raw, with a
// 32-byte blake3 multihash is bad_address.
func FromCID(c cid.Cid) (Root, error) {
	if !c.Defined() {
		return Root{}, status.Errorf(status.BadAddress, "b3: the CID is empty")
	}
	if c.Version() != 1 || c.Type() != cid.Raw {
		return Root{}, status.Errorf(status.BadAddress, "b3: %s has version %d and codec %#x, want CIDv1 raw (%#x)", c, c.Version(), c.Type(), cid.Raw)
	}
	return FromMultihash(c.Hash())
}
