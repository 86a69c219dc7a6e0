package content

// Params are the numbers of content that nobody tunes. Tests set them through
// [Config].
type Params struct {
	// MissesWaiting bounds the requests that wait for one of Misses places. The next is refused with
	// busy.
	MissesWaiting int64 `fixed:"misses_waiting"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		MissesWaiting: 512,
	}
}
