package oap

import (
	"errors"

	"github.com/klauspost/compress/zstd"

	"allium/internal/cores"
)

// The bounds of a payload under FlagComp (SPEC.md §2).
const (
	maxInflateFrames = 8        // most inflated bytes, as a multiple of max_frame
	maxInflateRatio  = 10       // most inflated bytes, as a multiple of the compressed bytes …
	freeInflateBytes = 64 << 10 // … but maxInflateRatio never allows less than this many bytes
	maxWindow        = 8 << 20  // most bytes of a zstd frame's window
)

// inflateLimit returns the most bytes to which n compressed bytes may inflate.
func inflateLimit(n int, maxFrame uint32) int {
	return min(maxInflateFrames*int(min(maxFrame, MaxFrame)), max(freeInflateBytes, maxInflateRatio*n))
}

// maxCodecCalls bounds the concurrent calls of a Codec: each may keep a window of maxWindow.
const maxCodecCalls = 4

// Codec compresses and inflates payloads under FlagComp (SPEC.md §2). A process makes one Codec for all its nodes. That
// bounds their memory, and the CPU time that peers can make them use. Its methods are safe for concurrent use.
type Codec struct {
	decoder *zstd.Decoder
	encoder *zstd.Encoder
	// slots holds one element for each running call of Inflate, so that waiting calls have allocated nothing.
	slots chan struct{} // bound: NewCodec's calls; further calls wait for one to end
	cores *cores.Pool   // for payloads above smallPayload; may be nil
}

// smallPayload is the length of a payload that is worked on without a core of the pool: in some microseconds.
const smallPayload = 4 << 10

// NewCodec returns a codec that runs at most calls (1 to 4) calls of Inflate at once, and as many of Compress. Further
// calls wait.
func NewCodec(calls int) *Codec { return newCodec(calls, nil) }

// NewCodecOn returns a codec for as many calls as the pool has cores, at most 4, which takes its cores from the pool.
func NewCodecOn(pool *cores.Pool) *Codec { return newCodec(pool.Cores(), pool) }

func newCodec(calls int, pool *cores.Pool) *Codec {
	calls = min(max(calls, 1), maxCodecCalls)
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(calls), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxInflateFrames*MaxFrame), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(calls), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(MaxFrame), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return &Codec{decoder: d, encoder: e, cores: pool,
		slots: make(chan struct{}, calls)} // bound: calls
}

// Calls returns the maximum number of concurrent calls of Inflate.
func (c *Codec) Calls() int { return cap(c.slots) }

// InUse returns how many calls of Inflate are running.
func (c *Codec) InUse() int { return len(c.slots) }

// Inflated returns the payload of a frame, decompressed by [Codec.Inflate] if the frame has FlagComp.
// Without FlagComp the result is Payload itself, which may alias a reader's buffer.
func (f Frame) Inflated(c *Codec, maxFrame uint32) ([]byte, error) {
	if !f.Flags.Has(FlagComp) {
		return f.Payload, nil
	}
	return c.Inflate(nil, f.Payload, maxFrame)
}

// Inflate returns the decompressed payload of a frame with FlagComp. It uses dst's array if that is
// large enough. A payload that is not zstd or exceeds the bounds of SPEC.md §2 is a *DecodeError
// inflate_bound. Inflate never allocates more memory than the bound.
func (c *Codec) Inflate(dst, payload []byte, maxFrame uint32) ([]byte, error) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	limit := inflateLimit(len(payload), maxFrame)
	var h zstd.Header
	if err := h.Decode(payload); err != nil {
		return nil, refuse(ReasonInflateBound, "%v", err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, refuse(ReasonInflateBound, "%d bytes would become %d, at most %d", len(payload), h.FrameContentSize,
			limit)
	}
	if size := int(h.FrameContentSize); !h.HasFCS || size > smallPayload {
		c.cores.Enter(cores.Foreground)
		defer c.cores.Leave(cores.Foreground)
	}
	size := limit
	if h.HasFCS {
		size = int(h.FrameContentSize)
	}
	for {
		if cap(dst) < size {
			dst = make([]byte, 0, size)
		}
		out, err := c.decoder.DecodeAll(payload, dst[:0:min(cap(dst), limit)])
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, zstd.ErrDecoderSizeExceeded) && size < limit:
			size = limit // the size in the header is only that of the first of several zstd frames
		default:
			return nil, refuse(ReasonInflateBound, "%d bytes, at most %d: %v", len(payload), limit, err)
		}
	}
}

// Compress appends payload, compressed with zstd, to dst, for a frame with FlagComp. It returns dst
// unchanged and false if the result would not be shorter, or if the receiver's [Codec.Inflate] would refuse
// it with that max_frame.
func (c *Codec) Compress(dst, payload []byte, maxFrame uint32) ([]byte, bool) {
	if len(payload) > smallPayload {
		c.cores.Enter(cores.Foreground)
		defer c.cores.Leave(cores.Foreground)
	}
	out := c.encoder.EncodeAll(payload, dst)
	n := len(out) - len(dst)
	if n >= len(payload) || len(payload) > inflateLimit(n, maxFrame) {
		return dst, false
	}
	return out, true
}
