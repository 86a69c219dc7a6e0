// Package openapi describes a route table as an OpenAPI 3.1 document, and as a Markdown page for
// people. The descriptions of types come from the comments in package api's source, and those of
// routes and headers from the table and from HeaderDocs.
//
// [New] builds a document: it adds an operation for each method of each endpoint (add), with its
// parameters, bodies, answers (answer) and errors (problems), and a schema for each type. [JSON]
// encodes it, and [Page] writes it as docs/reference/http.md. [Handlers] serve each listener's
// document at /openapi.json. The same program always builds the same bytes.
package openapi
