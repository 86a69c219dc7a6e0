// Package upload takes objects from clients: whole, with PUT and POST, and in pieces
// that survive cut connections and restarts. What it acknowledges is verified and
// durable; a capability bounds what is taken.
package upload
