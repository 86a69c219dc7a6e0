package answer

import "embed"

// Source contains the source file that declares the types. The descriptions in openapi.json are
// taken from its comments.
//
//go:embed answer.go
var Source embed.FS
