// Package bao encodes a byte range of an object together with its proof as one
// stream. Anyone who knows the address can verify the stream. The gateway answers
// ?format=bao with it (SPEC §9), and a client decodes it.
//
// An encoding is the object's size (8 bytes, little-endian) and the items of the
// walk of OAP1 §9 over the range, in pre-order, with nothing between them. An item
// is a parent of 64 bytes or a group of up to 64 KiB. The encoding of a whole
// object is the one that other implementations of Bao produce with 64 KiB chunk
// groups.
//
// # Invariants
//
//   - An [Encoder] writes only items that it has verified.
//   - A [Decoder] returns only bytes that it has verified. It returns io.EOF only
//     after the last byte of the range and the exact end of the encoding.
//   - The size at the front is a claim until the last group is verified. No
//     allocation grows with it.
//   - A range that reaches the object's end or beyond includes the last group,
//     which proves the size.
//   - A range that counts from the end starts where the claimed size puts it. With
//     a false size, the bytes before the error are verified bytes of another
//     place; [Decoder.Offset] says which.
//
// # One request
//
// A client asks for bytes 100,000–200,000. The gateway calls [Len] for the length
// of the answer and [NewEncoder]; [Encoder.WriteTo] reads, verifies and writes the
// size, the parents above groups 1 to 3, and the groups. The client calls
// [NewDecoder]. Its reads make the same walk from the claimed size, verify each
// item against the address, and return only the bytes of the range.
package bao
