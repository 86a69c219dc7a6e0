// Package content answers with objects and directories: ranges, conditions,
// verified encodings, listings and the pages around them. It knows nothing of
// listeners, TLS or tokens.
//
// Invariants:
//
//   - What leaves was verified by the [Content] that wrote it.
//   - The denylist is asked before every lookup, and before answers that need none.
//   - No script of the content runs in the gateway's origin.
//   - Whoever asks the network holds a place of the fetch gate from before the
//     question until the Content is closed.
package content
