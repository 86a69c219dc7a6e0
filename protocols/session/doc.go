// Package session exchanges small requests between two nodes over one long-lived
// libp2p stream, /oap/1/session (OAP1 §5). It carries HELLO, PING, GOAWAY, and the
// requests and answers of application protocols, which register a [Handler].
//
// # Invariants
//
//   - One goroutine reads a stream and one writes it. Readers never write; they
//     queue frames for the writer. A queued frame starts a writer if there is none,
//     and the writer ends after one second without frames.
//   - A frame permit is taken before a frame exists. Bytes are charged to the peer
//     and to the node when the frame is queued. A reader without a permit stops
//     reading, so a peer that does not read its answers blocks only its own stream.
//     If the node's bytes run out, answers to the peer that holds most become busy.
//   - Requests wait for a worker in a queue per peer. The peer with the fewest
//     workers is next, and no peer gets more workers than are left free. If all
//     queues are full, the peer with the most waiting requests loses its newest. A
//     worker that dies is replaced.
//   - A busy answer names the limit, its current value and the wait. Every request
//     that was accepted gets exactly one answer.
//   - Unknown peers hold little: a bounded number of sessions may be before their
//     HELLO. One peer may open peer_sessions; a new one replaces the oldest.
//   - A session ends once, for one reason. A rejected frame resets the stream with
//     0xA100 plus the index of the reason. A stop or a close loses no answer.
//   - No lock is held across I/O, a channel operation or a callback. Lock order:
//     Service.mu, link.mu.
//
// # One request
//
// [Service.Call] finds the session with the peer or opens one. It waits for one of
// the peer's max_inflight places and for egress permits, and registers the request
// as in flight. The writer sends it together with other queued frames.
//
// On the other node, link.request takes a permit for the answer. link.admit checks
// rate, corr_id, protocol, limits and the capability, so that a handler sees a verified
// capability or none, and link.dispatch queues the request for the
// workers. A worker runs the handler with the request's deadline and queues the
// answer with link.reply. The caller's reader finds the call by its corr_id and
// delivers the payload or the error.
//
// # States
//
// A session is opening, greeting, open, busy, going away, draining, closing or
// ended. states_test.go has the table of what each event does in each state, and
// tests it. In the code, link.ready, link.goneAway, link.shut and link.ended mark
// the steps; each is set once and never cleared.
//
// The header alone tells control frames apart. With app_proto_id 0 and corr_id 0, a
// request or response is HELLO and an event is GOAWAY. Any other control request is
// PING. Each request and each answer on a session is one frame.
package session
