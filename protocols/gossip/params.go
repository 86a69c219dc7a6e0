package gossip

import (
	"time"
)

// Params are the numbers of gossip that nobody tunes. Tests set them through [Config].
type Params struct {
	// BurstFrames bounds the frames one peer may bring in a burst, and this node publish. A frame is a
	// message, or each KiB begun of a larger one. More are dropped. It has room for the largest
	// message.
	BurstFrames int64 `fixed:"burst_frames"`

	// PeerRate bounds the frames per second one peer may bring after its burst. More are dropped.
	PeerRate int64 `fixed:"peer_rate"`

	// PublishRate bounds the frames per second this node publishes after its burst. More wait up to
	// PublishWait. It is half of PeerRate, so that no peer drops what this node publishes.
	PublishRate int64 `fixed:"publish_rate"`

	// PublishWait bounds the wait of a publication for its turn; then rate_limit.
	PublishWait time.Duration `fixed:"publish_wait"`

	// PublishQueue bounds the publications waiting to be signed and sent. The next is refused with
	// busy.
	PublishQueue int64 `fixed:"publish_queue"`

	// PeerQueue bounds the messages waiting to be sent to one peer. More are dropped.
	PeerQueue int64 `fixed:"peer_queue"`

	// ValidateQueue bounds the messages of all peers waiting for their signature to be checked. More
	// are dropped.
	ValidateQueue int64 `fixed:"validate_queue"`

	// Validators bounds the messages of one topic being validated at once. More are dropped.
	Validators int64 `fixed:"validators"`

	// ValidateTimeout bounds the validation of one message. It is ignored afterwards.
	ValidateTimeout time.Duration `fixed:"validate_timeout"`

	// Ingress bounds the accepted messages of all topics waiting for a worker. More are dropped.
	Ingress int64 `fixed:"ingress"`

	// Workers bounds the accepted messages being handled at once.
	Workers int64 `fixed:"workers"`

	// HandleTimeout bounds the handling of one message.
	HandleTimeout time.Duration `fixed:"handle_timeout"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		BurstFrames:     64,
		PeerRate:        256,
		PublishRate:     128,
		PublishWait:     time.Second,
		PublishQueue:    128,
		PeerQueue:       128,
		ValidateQueue:   512,
		Validators:      32,
		ValidateTimeout: 100 * time.Millisecond,
		Ingress:         512,
		Workers:         4,
		HandleTimeout:   time.Second,
	}
}
