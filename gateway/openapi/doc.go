// Package openapi describes a table of routes as an OpenAPI 3.1 document and as a
// page for people. What it says of types are the comments in package api's source.
package openapi
