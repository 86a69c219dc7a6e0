package gossip

import "time"

// Params are the settings of gossip that operators cannot change. Tests change them through [Config].
type Params struct {
	// BurstFrames is the most frames that one peer may send in a burst, and this node publish. A
	// message of at most 1 KiB is one frame; a larger one is a frame for each KiB or part of a KiB.
	// Frames beyond the burst are dropped. BurstFrames is at least the frames of the largest message.
	BurstFrames int64 `fixed:"burst_frames"`

	// PeerRate is the most frames per second that one peer may send after its burst. More are dropped.
	PeerRate int64 `fixed:"peer_rate"`

	// PublishRate is the most frames per second that this node publishes after its burst. More wait
	// up to PublishWait. It is half of PeerRate, so that peers do not drop this node's messages.
	PublishRate int64 `fixed:"publish_rate"`

	// PublishWait is the longest that Publish waits for PublishRate. A longer wait is refused with rate_limit.
	PublishWait time.Duration `fixed:"publish_wait"`

	// PublishQueue is the most published messages that wait to be signed and sent. The next is
	// refused with busy.
	PublishQueue int64 `fixed:"publish_queue"`

	// PeerQueue is the most messages that wait to be sent to one peer. More are dropped.
	PeerQueue int64 `fixed:"peer_queue"`

	// ValidateQueue is the most messages of all peers that wait for a signature check. More are
	// dropped.
	ValidateQueue int64 `fixed:"validate_queue"`

	// Validators is the most messages of one topic that are validated at once. More are dropped.
	Validators int64 `fixed:"validators"`

	// ValidateTimeout is the deadline for validating one message. A message that misses it is ignored.
	ValidateTimeout time.Duration `fixed:"validate_timeout"`

	// Ingress is the most accepted messages of all topics that wait for a worker. More are dropped.
	Ingress int64 `fixed:"ingress"`

	// Workers is the most accepted messages that are handled at once.
	Workers int64 `fixed:"workers"`

	// HandleTimeout is the deadline for handling one message.
	HandleTimeout time.Duration `fixed:"handle_timeout"`
}

// defaultParams returns the values that every node uses.
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
