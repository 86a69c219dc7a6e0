// Package capability says who may do what: a capability is a macaroon that
// names what its bearer may do, and until when (SPEC §10).
package capability
