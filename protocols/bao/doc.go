// Package bao is an object's bytes together with their proof, as one stream that
// anybody can check who knows the address: what a gateway answers to
// ?format=bao (SPEC §9), and what a client makes bytes of again.
//
// An encoding is the object's size, 8 bytes little-endian, and the walk of OAP1
// §9 over the range that was asked for: parents of 64 bytes and groups of 64 KiB
// in pre-order, nothing between them. The encoding of a whole object is what
// other implementations of Bao make with 64 KiB chunk groups.
//
// Invariants:
//
//   - An [Encoder] writes no item that it has not proved.
//   - A [Decoder] returns no byte that it has not proved, and io.EOF only after
//     the last byte of the range and the exact end of the encoding.
//   - The size at the front is a claim until the last group is proved; nothing
//     is allocated in proportion to it. Where the range depends on the size (it
//     reaches to or beyond the end), that group is part of the range. One that
//     counts from the end begins where the claim puts it: with a wrong one, what
//     is returned before the error are proved bytes of another place, which
//     [Decoder.Offset] names.
//
// One request, walked through: a client wants bytes 100,000–200,000. The gateway
// takes the length of the encoding from [Len], and its Encoder walks: size, the
// parents above groups 1 to 3, group 1, …, each read, hashed and compared before
// it is written. The client's Decoder reads the claimed size, makes the same walk
// of it, hashes what arrives against the address, and returns the groups without
// what the range was widened by.
package bao
