// Package server runs the gateway's HTTP listeners. It accepts and limits connections,
// speaks TLS, admits requests, verifies capabilities, records mutations in the audit log and
// cuts off clients that stand still. It serves the route table that it is given and knows nothing
// of the handlers behind it.
//
// A listener has one of four [Role]s. newListener in listener.go decides everything that
// differs between the roles.
//
// Invariants:
//
//   - Connections, requests being decided, transfers, listings and uploads each have a limit.
//     At a limit, a client with many connections or transfers loses one to a client with fewer.
//   - A refused connection costs one accept, and a refused request costs no handler.
//   - If an answer fails after its first byte, the server resets the stream or the connection: a client must never take
//     a part for the whole.
//   - The routes marked Exempt pass no limit and are served while the node drains.
//
// One request, walked through: conns.Listener takes a place for the connection, or evicts
// an idle one. net/http reads the header and calls listener.ServeHTTP, which looks the
// route up (router.route) and makes a delivery. admit checks the host, enters the gate, takes
// the client's share of the rate and verifies the capability (authorize). recordMutation
// writes the audit record, and the handler runs under the panic guard. Once the body exceeds
// the buffers, StartTransfer counts it as a transfer and frees the request's place. Each write
// renews the deadline, and package conns measures what the client acknowledged. On HTTP/1 without
// TLS, conns.HeaderWriter replaces the header that net/http writes (ADR 41). finish sends a problem
// or cuts the connection, logAccess logs, recordOutcome writes how a mutation ended.
package server
