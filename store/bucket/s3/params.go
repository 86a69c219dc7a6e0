package s3

import (
	"time"
)

// Params are the fixed parameters of a bucket, which are not configured. Tests set them
// through [Config].
type Params struct {
	// Timeout bounds one try of a request. The time that its bytes need at 256 KiB/s is
	// added. A try that takes longer is followed by the next try, or the call gets timeout.
	Timeout time.Duration `fixed:"timeout"`

	// RequestsWait is the maximum number of requests that wait for one of the Requests places. The
	// next one gets busy.
	RequestsWait int64 `fixed:"requests_wait"`
}

// defaultParams returns the values that a node uses.
func defaultParams() Params {
	return Params{
		Timeout:      10 * time.Second,
		RequestsWait: 4096,
	}
}
