package openapi

import (
	_ "embed" // the comments
	"encoding/json"
	"fmt"
)

// commentsSource has the comments as JSON, so that the program holds neither its source nor a parser of Go.
// `make docs` writes it.
//
//go:embed comments.json
var commentsSource []byte

// comments hold the comments in the source of the packages api and answer about the types on the wire.
type comments struct {
	Words  map[string]string   `json:"words"`  // "Type" and "Type.Field" to their comments
	Values map[string][]string `json:"values"` // of the string types with constants
}

// readComments returns a copy of the comments that the caller may change.
func readComments() (c comments, err error) {
	if err := json.Unmarshal(commentsSource, &c); err != nil {
		return c, fmt.Errorf("gateway: read the comments of the types: %w", err)
	}
	return c, nil
}
