// Package index asks other nodes what they know of a key, and answers them: the application
// protocol 2 of a session (OAP1 §10). Its messages hold the JSON of /resolve and /providers, whose
// types are [answer.Resolved] and [answer.Providers], and the signed records that prove it.
//
// Invariants:
//
//   - [Client] believes the signed records alone. It verifies each of them, for the key that it
//     asked for; everything else in an answer is ignored.
//   - A name never goes back behind a record that this node has verified before.
//   - [Server] answers from what its node holds. It lets the network be asked for a peer only with
//     Config.Recurse, within permits for all peers and for each.
//   - The denylist is asked before the node is.
//   - Requests are strict JSON. An answer has at most oap.MaxJSON bytes, 32 providers
//     and [MaxRecords] records; the server leaves out the last providers where they do not fit.
//
// One request: [Client.Name] sends {"op":"resolve","key":"blog.k51…"}. On the other node the session
// calls [Server.Handle], which decodes the request and asks its [Source] for what is held. It
// finds nothing and may recurse, so it takes a permit and asks again with the network. The answer
// has the chain of records and their envelopes. The client opens each envelope, keeps those of the
// name, and checks that they are not older than what it has seen.
package index
