package capability

import "crypto/sha256"

// keyGenerator is what macaroons derive a key of a fixed length with.
var keyGenerator = [keySize]byte([]byte("macaroons-key-generator\x00\x00\x00\x00\x00\x00\x00\x00\x00"))

// sign computes a token's signature: each HMAC is the key of the next, first
// over the root key, then the id, then each caveat. That is what the macaroon
// library does in VerifySignature with some thirty allocations; a test compares
// the two.
func sign(key *[keySize]byte, t *token) [sha256.Size]byte {
	var room [sha256.BlockSize + 192]byte // a longer caveat costs an allocation
	k := mac(&keyGenerator, string(key[:]), room[:])
	k = mac(&k, t.text[idStart:idStart+idSize], room[:])
	for _, c := range t.caveats() {
		k = mac(&k, c, room[:])
	}
	return k
}

// mac is HMAC-SHA-256 (RFC 2104) with a key of half a block.
func mac(key *[keySize]byte, message string, room []byte) [sha256.Size]byte {
	block := func(pad byte) []byte {
		for i := range sha256.BlockSize {
			room[i] = pad
		}
		for i, b := range key {
			room[i] ^= b
		}
		return room[:sha256.BlockSize]
	}
	inner := sha256.Sum256(append(block(0x36), message...))
	return sha256.Sum256(append(block(0x5c), inner[:]...))
}
