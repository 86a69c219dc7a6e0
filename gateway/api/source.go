package api

import "embed"

// Source contains the source files of this package that declare the types on the wire.
// The descriptions in openapi.json are taken from the comments in these files.
//
//go:embed types.go resolve.go wire.go stored.go faults.go gc.go damage.go node.go tree.go usage.go
//go:embed mutations.go events.go why.go names.go share.go reach.go durability.go evacuation.go
var Source embed.FS
