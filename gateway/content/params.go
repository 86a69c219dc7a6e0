package content

// Params are the fixed limits of content. Tests set them through [Config].
type Params struct {
	// FetchesWaiting bounds the requests that wait for one of the Fetches permits. The next
	// request is refused with busy.
	FetchesWaiting int64 `fixed:"misses_waiting"`
}

// defaultParams returns the limits of a node.
func defaultParams() Params {
	return Params{
		FetchesWaiting: 512,
	}
}
