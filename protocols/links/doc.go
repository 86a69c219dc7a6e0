// Package links lets a node that browsers cannot reach show a file or directory on the gateway of another node, such as
// its relay: the application protocol 5 of a session (OAP1 §10c).
//
// Invariants:
//
//   - No content travels here. The gateway fetches the object as any other, and proves it. [Server.Providers] names the
//     peer as its provider, since such an object is announced to nobody.
//   - A link ends when its peer has not renewed it for 45 s, ends it, or the [Server] stops. One that ended by itself
//     is remembered for as long: if an answer was lost, its peer still learns why it ended.
//   - The links of all peers and those of one IP group are bounded; the next one is busy.
//   - A peer asks only about its own links, and learns nothing of who opens them but that somebody does.
//
// One link, walked through: [Client.Open] tells the other node the address and the name of a file. Its [Server] has the
// [Opener] make a link, and answers with the URL. [Client.Follow] renews that every 5 s, and each answer has what
// happened since. A browser opens the URL. The gateway looks for the object, is told that the peer has it, and fetches
// it over the connection that the peer keeps.
package links
