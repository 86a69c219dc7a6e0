// Package certs provides the TLS certificates of the public listener: the operator's own from
// files, certificates of an ACME authority, or both.
//
// Invariants:
//
//   - A handshake uses the certificate in memory. It never waits for files. It waits for the
//     authority only for the first certificate of a domain on demand, for 3.5 s, and at most 64
//     handshakes do.
//   - Files that change are read again. If they are invalid, the old certificate stays in use.
//   - An ACME certificate is renewed when a third of its time is left, or half of it if it is valid
//     for less than 10 days. Failures pause for 5 minutes at first, and for 3 hours at most.
//   - Orders on demand are for domains that the node serves, 60 in an hour, and 1,024 certificates
//     in all. Which failed and how many were made outlives a restart.
//   - 4 orders are under way at once, those of configured names first.
//
// One handshake, walked through: crypto/tls calls [Source.Get]. certFiles returns the certificate that
// names the host. acmeCerts returns that of the requested name or address, or the proof of an
// authority's TLS-ALPN-01 challenge. For a domain on demand without a certificate it asks whether
// the node serves it (Node.Served), tells Run, and waits (await). Meanwhile [Source.Run] watches the
// files, and orders certificates that are missing or due (begin, obtain), which it stores in the
// ACME directory.
package certs
