// Package exchange is one request and its answer: the line of the table of routes
// that a request belongs to, its parameters and body, the answer in the making and
// the problem that an error becomes.
//
// Handlers and listeners meet here and import nothing of each other. A handler
// gets a [Response], which brings what the request may do (its grant), what keeps
// the record of it (the audit log) and the way to its client (a [Transport]). A
// listener makes the Response and decides who may ask; it knows no handler but
// through an [Endpoint].
package exchange
