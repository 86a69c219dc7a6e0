// Package session carries small requests between two nodes over one long-lived
// libp2p stream, /oap/1/session (OAP1 §5): HELLO, requests and answers of the
// application protocols that register a [Handler], PING and GOAWAY.
//
// Invariants:
//
//   - One goroutine reads a stream and one writes it. Readers never write: they
//     queue frames for the writer, which is started for a frame that finds none
//     and ends when none came for a second, so that an idle session has none.
//   - A frame is queued only under a frame permit, taken before the frame
//     exists, and bytes are charged to the peer and to the node. A reader that
//     gets no permit reads no further, so a peer that does not read its answers
//     stops its own stream and nobody else's. When the bytes of the node are
//     short, answers to the peer that holds most of them become busy.
//   - Requests wait for a worker in a lane of their peer. Who has fewest workers
//     is next, nobody gets more of them than are left free, and who has most
//     waiting makes room: a peer that floods hurts itself. A worker that dies is
//     replaced.
//   - What is full is told busy with the limit, how much of it is taken and the
//     wait by its pace, and every request that was taken is answered, once.
//   - Strangers hold little: so many sessions in their HELLO at once, so many of
//     one peer, of which the oldest makes room.
//   - A session ends once, for one reason. Refused frames reset it with 0xA100
//     plus the index; a stop or a close loses nothing that was answered.
//   - No lock is held across I/O, a channel operation or a call-back. Lock
//     order: Service.mu, link.mu, inflight.mu.
//
// One request, walked through: Call finds the session with the peer or opens
// one, waits for one of the peer's max_inflight places and for egress permits,
// and puts the request in flight. The writer sends it, with whatever else is
// queued by then. At the other end the reader takes a permit for the answer,
// checks rate, corr_id, protocol and limits, and queues the request in the lane
// of the peer; a worker runs the handler under the request's deadline and queues
// the answer under the permit. The caller's reader finds the call by its
// corr_id and hands it the payload or the error.
//
// A session is opening, greeting, open, busy, going away, draining, closing or
// ended. What each event does in each of these is a table that the tests run,
// in states_test.go; of the code, link.ready, link.goneAway, link.shut and
// link.ended are the steps, each taken once and never back.
//
// Control frames are told apart by the header alone: app_proto_id 0 with
// corr_id 0 is HELLO when it is a request or response and GOAWAY when it is an
// event; any other control request is PING. A session's requests and answers
// are one frame each.
package session
