// Package record holds signed deterministic records (OAP1 §11).
//
// A [Codec] encodes messages in deterministic CBOR (RFC 8949 §4.2.1). Each message
// has exactly one encoding, so nothing hides in it, and signed records can be
// compared byte for byte.
//
// A [Kind] signs and verifies payloads in libp2p envelopes. Its domain is part of
// what the signature covers, so a signature for one purpose is not valid for
// another. Verifying an Ed25519 signature takes about 60 µs. Payloads are opaque.
//
// # One record
//
// The provider encodes a record with [Codec.Marshal]; [Kind.Seal] signs it and
// wraps it up with the public key. The receiver calls [Kind.Open], which checks
// type and signature and returns the payload with the key that signed it. The
// caller then decides whether that key may sign this record.
package record
