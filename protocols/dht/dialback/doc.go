// Package dialback finds out which providers can be reached at the address that
// their connection comes from. It opens a new connection there and closes it at once.
//
// Invariants:
//
//   - It never dials another IP address than the one a connection came from. A record
//     that names somebody else's address makes nobody dial there.
//   - At most 4 dials run at a time, at most 5 start per second (10 in a burst), and
//     each takes at most 3 s.
//   - At most 256 providers wait, in a queue that is fair between IP groups. One that
//     finds no place counts as not checked.
//   - A provider is not dialed again for 12 h after a success or 10 min after a failure.
//
// One check: the provider exchange receives a record and calls [Checker.Source], which
// returns the IP group of the connection and whether the provider is known to be
// reachable. If it is not, the exchange calls [Checker.Check], which queues the
// provider. A worker of [Checker.Run] dials it and, on success, calls the function that
// Check was given.
package dialback
