package api

import "embed"

// Source contains the source files of this package that declare the types on the wire.
// The descriptions in openapi.json are taken from the comments in these files.
//
//go:embed types.go wire.go stored.go gc.go usage.go mutations.go events.go
//go:embed why.go names.go finder.go reader.go peers.go durability.go control.go
var Source embed.FS
