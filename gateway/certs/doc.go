// Package certs provides the TLS certificates of the public listener: the operator's own from
// files, or certificates of an ACME authority.
//
// Invariants:
//
//   - A handshake uses the certificate in memory. It never waits for files or the authority.
//   - Files that change are read again. If they are invalid, the old certificate stays in use.
//   - An ACME certificate is renewed when a third of its time is left. Failures pause for 5 minutes
//     at first, and for 3 hours at most.
//
// One handshake, walked through: crypto/tls calls [Source.Get]. certFiles returns its current
// certificate. acmeCerts returns the certificate of the requested name, or the proof of an
// authority's TLS-ALPN-01 challenge. Meanwhile [Source.Run] watches the files, or orders
// certificates that are missing or due (obtain) and stores them in the ACME directory.
package certs
