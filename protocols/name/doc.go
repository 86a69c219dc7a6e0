// Package name holds names: what they are, how they are spelled, and the signed records that
// say what they stand for (SPEC §6, OAP1 §11). It has no I/O and no clock; the time comes in.
//
// A [Name] is a [Label] in a [Zone], an Ed25519 key: blog.k51qzi5u…. The owner of the key signs
// records, each with a [Value]: the address of an object, another name, text, or nothing, which
// withdraws the name. A [Map] is a signed list of short names for zones.
//
// Invariants:
//
//   - A Label exists only in normal form, and a Value only parsed. Parsing the text of either
//     returns the same.
//   - Each record and each map has exactly one encoding. [Open] and [VerifyMap] return nothing
//     that its owner did not sign, that exceeds a bound, or that is not in that encoding.
//   - Of the records of one name the highest seq is in force. Two values with one seq are an
//     equivocation, and [Versions] keeps both. It does not depend on the order of arrival.
//   - Text from strangers is bounded before it is parsed, and cut before it is in an error.
//
// # One name
//
// Alice publishes her site. Her node parses the label with [ParseLabel], which turns "Blog" into
// "blog", and asks the [Spellings] of her zone that nothing there looks like it. [NextSeq] gives
// a number above all before, and [Sign] returns the record in its envelope. The node puts the
// envelope under [Name.Digest] to the peers closest to [Name.Key].
//
// Bob's node looks the name up. Three peers answer with an envelope each. [Open] verifies the
// signature, that the signer is the zone, and all bounds at the present time; a [RecordError]
// says why one is refused. [Versions.Add] keeps the record with the highest seq, and both if two
// equivocate. Then [Value.Address] is the object to fetch. The peers whose record was older get
// the envelope that is in force, byte for byte.
package name
