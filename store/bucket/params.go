package bucket

import (
	"time"
)

// Params are the numbers of a bucket that nobody tunes. Tests set them through [Config].
type Params struct {
	// Timeout bounds one try of a request beside its bytes, for which 256 KiB/s are expected; then the
	// next try or timeout.
	Timeout time.Duration `fixed:"timeout"`

	// RequestsWait bounds the requests waiting for one of Requests places. The next gets busy.
	RequestsWait int64 `fixed:"requests_wait"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		Timeout:      10 * time.Second,
		RequestsWait: 4096,
	}
}
