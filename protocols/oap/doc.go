// Package oap is the OAP/1 wire codec: frames in, frames out, and the JSON
// payloads that several protocols share. SPEC.md beside this file is normative;
// comments cite its sections.
//
// Invariants:
//
//   - A header is checked in the order of SPEC.md §3 before a byte is allocated
//     for what it announces, and memory then grows with the bytes that arrive.
//   - No input makes the package panic. A refusal is a [DecodeError] with one of
//     the closed list of reasons; everything else is the transport's own error.
//   - However the input is split over reads, the frames and errors are the same.
//   - A [Writer] hands each frame to its stream in exactly one Write, and refuses
//     to send what a [Reader] would refuse to receive.
//
// One frame, walked through: the sender fills a [Frame] and calls Writer.Write,
// which lays header, capability and payload out in one pooled buffer and writes
// it; a bulk sender fills a [Builder] straight from disk instead. At the other
// end Reader.Next waits for 38 bytes, checks them, waits for the rest and
// returns a Frame whose Cap and Payload alias the reader's buffer until the
// next call. A payload under [FlagComp] goes through [Inflate], a JSON one
// through [DecodeJSON].
package oap
