// Package server accepts connections and runs the route of each request: it opens
// the listeners, bounds connections, speaks TLS with certificates of files or of
// ACME, tells clients apart, admits requests, checks capabilities, records
// mutations, and cuts off clients that are too slow.
//
// It serves the endpoints of the table that it is given and knows nothing of what
// they do. A listener is one of four [Role]s; what the roles differ in is decided
// where a listener is made, in listener.go, and nowhere else.
package server
