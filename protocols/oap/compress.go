package oap

import (
	"errors"
	"runtime"

	"github.com/klauspost/compress/zstd"
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

// The whole program shares one decoder and one encoder. That bounds their memory and the CPU time
// that peers can make them use: at most maxCodecCalls calls of each run at once, and further calls
// wait. They are made completely at the start. Parts made lazily inside a testing/synctest
// bubble would not work outside it.
var (
	maxCodecCalls = min(runtime.GOMAXPROCS(0), 4)
	decoder       = newDecoder()
	encoder       = newEncoder()

	// inflateSlots holds one element for each running call of Inflate, so that waiting calls have
	// allocated nothing.
	inflateSlots = make(chan struct{}, maxCodecCalls) // bound: maxCodecCalls; further calls wait for one to end
)

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(maxCodecCalls), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxInflateFrames*MaxFrame), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(maxCodecCalls), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(MaxFrame), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	e.EncodeAll(nil, nil) // makes the parts that the encoder would make lazily
	return e
}

// Inflated returns the payload of a frame, decompressed by [Inflate] if the frame has FlagComp.
// Without FlagComp the result is Payload itself, which may alias a reader's buffer.
func (f Frame) Inflated(maxFrame uint32) ([]byte, error) {
	if !f.Flags.Has(FlagComp) {
		return f.Payload, nil
	}
	return Inflate(nil, f.Payload, maxFrame)
}

// Inflate returns the decompressed payload of a frame with FlagComp. It uses dst's array if that is
// large enough. A payload that is not zstd or exceeds the bounds of SPEC.md §2 is a *DecodeError
// inflate_bound. Inflate never allocates more memory than the bound. At most 4 calls run at once,
// and no more than GOMAXPROCS; further calls wait.
func Inflate(dst, payload []byte, maxFrame uint32) ([]byte, error) {
	inflateSlots <- struct{}{}
	defer func() { <-inflateSlots }()
	limit := inflateLimit(len(payload), maxFrame)
	var h zstd.Header
	if err := h.Decode(payload); err != nil {
		return nil, refuse(ReasonInflateBound, "%v", err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, refuse(ReasonInflateBound, "%d bytes would become %d, at most %d", len(payload), h.FrameContentSize,
			limit)
	}
	size := limit
	if h.HasFCS {
		size = int(h.FrameContentSize)
	}
	for {
		if cap(dst) < size {
			dst = make([]byte, 0, size)
		}
		out, err := decoder.DecodeAll(payload, dst[:0:min(cap(dst), limit)])
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
// unchanged and false if the result would not be shorter, or if the receiver's [Inflate] would refuse
// it with that max_frame.
func Compress(dst, payload []byte, maxFrame uint32) ([]byte, bool) {
	out := encoder.EncodeAll(payload, dst)
	n := len(out) - len(dst)
	if n >= len(payload) || len(payload) > inflateLimit(n, maxFrame) {
		return dst, false
	}
	return out, true
}
