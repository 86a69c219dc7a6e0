package oap

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The bounds of a payload under FlagComp (SPEC.md §2).
const (
	maxInflateFrames = 8        // inflated ≤ this × max_frame
	maxInflateRatio  = 10       // and ≤ this × the compressed size,
	inflateFree      = 64 << 10 // which counts above this many bytes
	maxWindow        = 8 << 20  // of the zstd frame
)

// inflateLimit is the most that n compressed bytes may become.
func inflateLimit(n int, maxFrame uint32) int {
	return min(maxInflateFrames*int(min(maxFrame, MaxFrame)), max(inflateFree, maxInflateRatio*n))
}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxInflateFrames*MaxFrame), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}}

// Inflate returns the payload of a FlagComp frame, decompressed into dst's
// array when it is large enough. A payload that is not zstd or breaks the
// bounds of SPEC.md §2 is a *DecodeError inflate_bound; no more memory than the
// bound is used to find out.
func Inflate(dst, payload []byte, maxFrame uint32) ([]byte, error) {
	limit := inflateLimit(len(payload), maxFrame)
	var h zstd.Header
	if err := h.Decode(payload); err != nil {
		return nil, refuse(ReasonInflateBound, "%v", err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, refuse(ReasonInflateBound, "%d bytes would become %d, at most %d", len(payload), h.FrameContentSize, limit)
	}
	size := limit
	if h.HasFCS {
		size = int(h.FrameContentSize)
	}
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	for {
		if cap(dst) < size {
			dst = make([]byte, 0, size)
		}
		out, err := d.DecodeAll(payload, dst[:0:min(cap(dst), limit)])
		switch {
		case err == nil:
			return out, nil
		case err == zstd.ErrDecoderSizeExceeded && size < limit:
			size = limit // further zstd frames follow the first
		default:
			return nil, refuse(ReasonInflateBound, "%d bytes, at most %d: %v", len(payload), limit, err)
		}
	}
}

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(MaxFrame), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}}

// Compress appends the zstd form of payload to dst, for a frame with FlagComp.
// It reports false, and dst unchanged, when that would not be shorter or when
// the receiver's [Inflate] would refuse it under that max_frame.
func Compress(dst, payload []byte, maxFrame uint32) ([]byte, bool) {
	e := encoders.Get().(*zstd.Encoder)
	out := e.EncodeAll(payload, dst)
	encoders.Put(e)
	n := len(out) - len(dst)
	if n >= len(payload) || len(payload) > inflateLimit(n, maxFrame) {
		return dst, false
	}
	return out, true
}
