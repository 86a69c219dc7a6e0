// Package oap reads and writes OAP/1 frames, and encodes and decodes the JSON payloads that several
// protocols share. SPEC.md in this directory is normative; comments cite its sections.
//
// Invariants:
//
//   - A header is checked in the order of SPEC.md §3 before memory is allocated for the rest of its
//     frame. Memory then grows with the bytes that arrive.
//   - No input makes the package panic. A refused frame is a [DecodeError] with one of a closed list
//     of reasons. A malformed JSON payload is status bad_request. Other errors are those of the
//     stream, of the check given to [Reader.SetCheck] or of the [Memory].
//   - The frames and errors do not depend on how the input is split over reads.
//   - A [Writer] never splits a frame over two calls of the stream's Write. It refuses to send a
//     frame that a [Reader] would refuse to receive.
//
// One frame: the sender fills a [Frame] and calls Writer.Write, which copies header, capability and
// payload to one pooled buffer and writes it. A sender of bulk data reads from disk into a [Builder]
// instead and calls Writer.WriteBuilder. At the other end Reader.Next reads the 38 bytes of the
// header, checks them, reads the rest and returns a Frame. Its Cap and Payload alias the reader's
// buffer until the next call. [Frame.Inflated] decompresses a payload with [FlagComp], and
// [DecodeJSON] decodes a JSON payload.
package oap
