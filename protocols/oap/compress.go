package oap

import (
	"errors"
	"runtime"

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

// The decoder and the encoder are shared by the program, which bounds both
// their memory and the CPU that peers make them take: codecs calls at once, the
// next waits for one to end. They are complete from the start, as what is made
// lazily inside a testing/synctest bubble would not work outside it.
var (
	codecs  = min(runtime.GOMAXPROCS(0), 4)
	decoder = newDecoder()
	encoder = newEncoder()

	// inflating holds a place for each call of Inflate, so that no more of them
	// than there are decoders have taken memory.
	inflating = make(chan struct{}, codecs) // bound: codecs; further calls wait for one to end
)

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(codecs), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxInflateFrames*MaxFrame), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(codecs), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(MaxFrame), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	e.EncodeAll(nil, nil) // makes its parts
	return e
}

// Inflated returns the payload of a frame: what [Inflate] makes of it under
// FlagComp, else the payload itself, which the reader's buffer holds.
func (f Frame) Inflated(maxFrame uint32) ([]byte, error) {
	if !f.Flags.Has(FlagComp) {
		return f.Payload, nil
	}
	return Inflate(nil, f.Payload, maxFrame)
}

// Inflate returns the payload of a FlagComp frame, decompressed into dst's
// array when it is large enough. A payload that is not zstd or breaks the
// bounds of SPEC.md §2 is a *DecodeError inflate_bound; no more memory than the
// bound is used to find out.
func Inflate(dst, payload []byte, maxFrame uint32) ([]byte, error) {
	inflating <- struct{}{}
	defer func() { <-inflating }()
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
	for {
		if cap(dst) < size {
			dst = make([]byte, 0, size)
		}
		out, err := decoder.DecodeAll(payload, dst[:0:min(cap(dst), limit)])
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, zstd.ErrDecoderSizeExceeded) && size < limit:
			size = limit // further zstd frames follow the first
		default:
			return nil, refuse(ReasonInflateBound, "%d bytes, at most %d: %v", len(payload), limit, err)
		}
	}
}

// Compress appends the zstd form of payload to dst, for a frame with FlagComp.
// It reports false, and dst unchanged, when that would not be shorter or when
// the receiver's [Inflate] would refuse it under that max_frame.
func Compress(dst, payload []byte, maxFrame uint32) ([]byte, bool) {
	out := encoder.EncodeAll(payload, dst)
	n := len(out) - len(dst)
	if n >= len(payload) || len(payload) > inflateLimit(n, maxFrame) {
		return dst, false
	}
	return out, true
}
