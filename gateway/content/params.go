package content

import "allium/internal/limits"

// Params are the fixed limits of content. Tests set them through [Config].
type Params struct {
	// FetchesWaiting bounds the requests that wait for one of the Fetches permits. The next
	// request is refused with busy.
	FetchesWaiting int64 `fixed:"misses_waiting"`

	// DirectoryBytes bounds the memory of the manifests that are kept to look names up in them.
	DirectoryBytes limits.Bytes `fixed:"directory_bytes"`
}

// defaultParams returns the limits of a node.
func defaultParams() Params {
	return Params{
		FetchesWaiting: 512,
		DirectoryBytes: 16 << 20,
	}
}
