// Package ticket holds tickets: one line of text with which somebody else can fetch an object from
// the peer that shares it (OAP1 §11). It has no I/O and no clock; the time comes in.
//
// A [Ticket] names an object, the peer that has it, and where that peer listens. Its text is bech32m with the prefix
// "allium", so a wrong letter is noticed before anything is dialled. A ticket is not signed: its sender can write
// anything into it. The bytes that are fetched are proved against the address in it, and the peer proves its ID when it
// is dialled.
//
// Invariants:
//
//   - Each ticket has exactly one encoding in lower case and one in upper case. [Parse] returns
//     nothing that exceeds a bound of this package.
//   - The name is only a name: no separators, no control characters, not "." or "..".
//   - Text from strangers is bounded before it is parsed, and never quoted in an error.
//
// # One ticket
//
// Alice's node fills in a Ticket, and [Ticket.Encode] returns the line allium1…, which she sends to
// Bob. His node reads it with [Parse]. [Ticket.Check] tells whether it has ended, whether it is for
// another network, and whether it is his own. [Ticket.Sources] returns the peer with its addresses,
// without those that Bob's machine must not dial. The node asks that peer first.
package ticket
