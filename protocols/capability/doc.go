// Package capability mints, narrows and verifies capabilities. A capability is a
// macaroon that says what its bearer may do, and until when (SPEC §10). Anyone
// who holds the token can use it.
//
// A root key mints a token ([Ring.Mint]). The bearer narrows it offline and without
// the key ([Attenuate]). Anyone can read what it says ([Inspect]). A node that has
// the key decides whether it allows a request ([Verifier.Verify]).
//
// # Invariants
//
//   - A node looks at caveats only after it verified the signature over them.
//   - A token with an unknown caveat, or without an expiry, allows nothing.
//   - All caveats of one kind must hold, so an additional caveat only narrows.
//   - A token has exactly one encoding.
//   - No error and no log line contains a token or a key.
//
// # One request
//
// The gateway calls [Verifier.Verify] with the token of the Authorization header
// and a [Request]. Verify decodes the token (at most 4 KiB and 32 caveats) and
// finds the root key by the key number in the token's id. It computes the chain of
// HMACs and compares it in constant time. It looks up the id, and the branch after
// each caveat, in the [Revocations]. It checks each caveat against the Request.
// Last, it takes one request from the bucket of each rate caveat. The result is a
// [Grant].
//
// Peers send a macaroon as its bytes (OAP1.md §7); [Text] gives the form that Verify takes.
// Those of the members of a cluster are for [Replicate].
package capability
