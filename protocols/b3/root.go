package b3

import (
	"encoding/hex"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"

	"allium/protocols/status"
)

// Size is the length of a root and of a chaining value in bytes.
const Size = 32

// prefix starts the printed form of an address.
const prefix = "b3:"

// Root is the content address of an object: the BLAKE3-256 of its plain bytes
// (SPEC §1). Roots are comparable. The zero Root means "no address".
type Root [Size]byte

// Sum returns the address of p.
func Sum(p []byte) Root {
	if len(p) <= GroupSize {
		return groupCV(p, 0, true)
	}
	var t treeBuilder
	for len(p) > 0 {
		n := min(len(p), GroupSize)
		t.push(groupCV(p[:n], t.groups, false)) //lockcheck:computes t writes no outboard
		p = p[n:]
	}
	return t.root() //lockcheck:computes t writes no outboard
}

// Parse reads an address in the form that [Root.String] prints. Any other text
// is an [*AddressError] that says what is wrong with it.
func Parse(s string) (Root, error) {
	if err := checkAddress(s); err != nil {
		return Root{}, err
	}
	var r Root
	_, _ = hex.Decode(r[:], []byte(s[len(prefix):])) // checkAddress checked every digit
	return r, nil
}

// String returns the printed form: "b3:" and 64 lower-case hex digits.
func (r Root) String() string {
	var b [len(prefix) + 2*Size]byte
	copy(b[:], prefix)
	hex.Encode(b[len(prefix):], r[:])
	return string(b[:])
}

// AppendText appends what String returns to b.
func (r Root) AppendText(b []byte) ([]byte, error) {
	return hex.AppendEncode(append(b, prefix...), r[:]), nil
}

// Hex returns the 64 hex digits without the prefix, as b3sum prints them.
func (r Root) Hex() string { return hex.EncodeToString(r[:]) }

// IsZero reports whether r is the zero Root.
func (r Root) IsZero() bool { return r == Root{} }

// MarshalText returns the printed form, so that JSON shows it.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses the printed form as [Parse] does. An error leaves r as it
// was.
func (r *Root) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// Multihash returns the address as a multihash, which DHT keys use: code blake3
// (0x1e), 32 bytes.
func (r Root) Multihash() multihash.Multihash {
	return append(multihash.Multihash{multihash.BLAKE3, Size}, r[:]...)
}

// CID returns the address as a CIDv1 with codec raw (0x55). The CID's String has
// 59 base32 characters; it is the DNS label of SPEC §1.
func (r Root) CID() cid.Cid { return cid.NewCidV1(cid.Raw, r.Multihash()) }

// FromMultihash returns the address of a 32-byte blake3 multihash. Any other
// multihash is bad_address.
func FromMultihash(m []byte) (Root, error) {
	d, err := multihash.Decode(m)
	if err != nil {
		return Root{}, status.Errorf(status.BadAddress, "read the multihash: %w", err)
	}
	if d.Code != multihash.BLAKE3 || d.Length != Size {
		return Root{}, status.Errorf(status.BadAddress,
			"the multihash has code %#x and %d bytes, want blake3 (%#x) and %d",
			d.Code, d.Length, multihash.BLAKE3, Size)
	}
	return Root(d.Digest), nil
}

// FromCID returns the address of a CIDv1 with codec raw and a 32-byte blake3
// multihash. Any other CID is bad_address.
func FromCID(c cid.Cid) (Root, error) {
	if !c.Defined() {
		return Root{}, status.Errorf(status.BadAddress, "the CID is empty")
	}
	if c.Version() != 1 || c.Type() != cid.Raw {
		return Root{}, status.Errorf(status.BadAddress,
			"the CID %s has version %d and codec %#x, want version 1 and raw (%#x)",
			c, c.Version(), c.Type(), cid.Raw)
	}
	return FromMultihash(c.Hash())
}
