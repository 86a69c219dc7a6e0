// Package capability says who may do what: a capability is a macaroon that
// names what its bearer may do, and until when (SPEC §10).
//
// A root key mints it ([Ring.Mint]); its bearer narrows it offline and without
// the key ([Attenuate]), anybody reads what it says ([Inspect]), and a node that
// has the key says whether a request may be done with it ([Verifier.Verify]).
//
// Invariants: nothing of a caveat is looked at before the signature over it was
// verified; a caveat that is not known, or the lack of an expiry, refuses; of
// caveats of one kind all must hold, so that another caveat only narrows; a
// token has one encoding; no error and no log line has a token or a key in it.
//
// One request, walked through: the gateway hands the text of Authorization to
// Verify with an [Ask]. The token is taken apart (≤ 4 KiB, ≤ 32 caveats, one
// encoding), the root key is found by the id's key number, the chain of HMACs
// is computed and compared in constant time, the id and the branch after each
// caveat are looked up among what was revoked, each caveat is parsed and held against the ask, and last a request
// is taken from the bucket of each caveat on the rate. What is left is a [Grant].
//
// Peers show a macaroon as its bytes (OAP1.md §7); no request of theirs asks for
// one yet, so Verify takes the text alone.
package capability
