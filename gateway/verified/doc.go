// Package verified reads from and uploads to gateways that need not be trusted. It verifies every
// byte against the requested address before it returns it, and computes the address of every
// upload itself.
//
// Invariants:
//
//   - An answer is used only as far as it proves itself. Bytes that fail the proof are corrupt and
//     end the transfer; the gateway is not asked again.
//   - A capability is sent over https or to this machine alone.
//   - Every wait has a limit: to connect, for a header, between two reads, for the next proved
//     chunk group, for the gateway to store an upload.
//
// One request, walked through: [Gateway.Get] requests the verified encoding of a range (open) and
// checks that the answer is one (begin). [Download.Read] decodes and verifies chunk groups. When
// the connection is cut, resume waits and requests the rest, from the last verified group on.
// After three attempts in a row without a verified byte it returns the error. A [Tree] reads the objects of a directory
// in the same way from one answer, a bundle. [Gateway.Upload]
// hashes the file first, starts a resumable upload, sends the missing bytes and compares the
// gateway's address with its own.
package verified
