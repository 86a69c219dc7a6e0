package kad

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Key is a point in the key space: the SHA-256 of a peer ID or of a multihash, as
// in go-libp2p-kad-dht.
type Key [sha256.Size]byte

// Hash returns the key of p.
func Hash(p []byte) Key { return sha256.Sum256(p) }

// CommonPrefix returns the number of leading bits, 0 to 256, that both keys share.
func (k Key) CommonPrefix(o Key) int {
	for i, w := range xor(k, o) {
		if w != 0 {
			return i*64 + bits.LeadingZeros64(w)
		}
	}
	return 8 * len(k)
}

// Compare returns a negative number if a is closer to k than b, a positive number
// if it is farther, and 0 if a and b are equal.
func (k Key) Compare(a, b Key) int { return xor(k, a).compare(xor(k, b)) }

// distance is the XOR of two keys, most significant word first.
type distance [4]uint64

func xor(a, b Key) (d distance) {
	for i := range d {
		d[i] = binary.BigEndian.Uint64(a[8*i:]) ^ binary.BigEndian.Uint64(b[8*i:])
	}
	return d
}

func (d distance) compare(o distance) int {
	for i := range d {
		if c := cmp.Compare(d[i], o[i]); c != 0 {
			return c
		}
	}
	return 0
}
