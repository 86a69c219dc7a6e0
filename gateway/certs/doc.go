// Package certs is what the public listener proves itself with: a certificate of the
// operator's own, read again when its files change, or those that an ACME authority
// gives, renewed ahead of need.
//
// A handshake takes what is there. It waits for neither files nor the authority.
package certs
