package api

import "embed"

// Source is the part of this package's source that declares what is on the
// wire. The descriptions of openapi.json are the comments in it, so that they
// are written once.
//
//go:embed types.go stored.go faults.go gc.go damage.go node.go tree.go usage.go mutations.go
var Source embed.FS
