// Package admin answers the pages of the admin listener and the Unix socket: how the
// node is, the local API as routes (package api says what its verbs do), and the
// mutations that take JSON and may be repeated with an Idempotency-Key.
package admin
