package object

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/deadline"
	"allium/internal/inbound"
	"allium/protocols/oap"
)

// clientStream is one stream to a peer. One request uses it at a time.
type clientStream struct {
	network.Stream
	peer peer.ID
	cfg  Config

	frames    *oap.Reader
	codec     *oap.Codec
	memory    *inbound.Buffer // accounts the bytes of frames
	writer    *oap.Writer
	corr      uint64 // corr_id of the latest request
	bytesRead int64  // bytes read since the latest request was sent
	parked    bool   // whether reads fail: see park

	// waitUntil is the time in nanoseconds since 1970 until which an answer may stay away for
	// longer than ReadTimeout, because the items of a put are being sent or stored.
	waitUntil atomic.Int64

	reading  deadline.Reader // its clock runs from the first byte of a frame to the last
	writing  deadline.Writer
	patience time.Duration // of writing
	timer    *time.Timer   // expires the stream while it is idle
}

func newClientStream(
	ctx context.Context, id peer.ID, st network.Stream, cfg Config, memory *inbound.Memory,
	codec *oap.Codec,
) *clientStream {
	c := &clientStream{
		Stream: st, peer: id, cfg: cfg, codec: codec,
		reading: deadline.NewReader(st, deadline.NewMinRate(cfg.ReadTimeout, int64(cfg.MinRate))),
	}
	c.setPatience(cfg.WriteTimeout)
	c.frames = oap.NewReader(answerReader{c}, oap.MaxFrame)
	c.frames.SetCheck(c.checkHeader)
	evicted := func(error) { _ = st.ResetWithError(network.StreamResourceLimitExceeded) }
	c.memory = memory.Open(ctx, st.Conn(), evicted, c.reading.Pause)
	c.frames.SetMemory(c.memory)
	c.writer = oap.NewWriter(queryWriter{c}, oap.MaxFrame)
	return c
}

// setPatience sets for how long the peer may read nothing while data waits for it. Nothing is being written.
func (c *clientStream) setPatience(d time.Duration) {
	c.patience = d
	c.writing = deadline.NewWriter(c.Stream, deadline.NewMinRate(d, int64(c.cfg.MinRate)))
}

// checkHeader returns an error for a frame that does not answer the latest request,
// before the rest of the frame is read.
func (c *clientStream) checkHeader(h oap.Header) error {
	switch {
	case h.Proto != oap.ProtoObject || h.CorrID != c.corr:
		return violation("a frame of app_proto_id %d, corr_id %d answers corr_id %d", h.Proto, h.CorrID, c.corr)
	case !h.Flags.Has(oap.FlagResp) || h.Flags.IsAck():
		return violation("flags %s on an answer", h.Flags)
	}
	return nil
}

// exchange sends a request and passes the frames of its answer to a, until the last
// frame or the first error. done reports whether a received the last frame. Frames
// have at most maxFrame bytes.
func (c *clientStream) exchange(
	ctx context.Context, payload []byte, maxFrame uint32, a answer,
) (done bool, err error) {
	f := oap.Frame{Header: oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd}, Payload: payload}
	if err := c.begin(ctx, maxFrame, f); err != nil {
		return false, err
	}
	for {
		f, err := c.next(maxFrame)
		if err != nil {
			return false, err
		}
		if done, err := a.frame(f); done || err != nil {
			return done, err
		}
	}
}

// begin sends the frame that begins a request.
func (c *clientStream) begin(ctx context.Context, maxFrame uint32, f oap.Frame) error {
	c.corr++
	c.bytesRead, c.parked = 0, false
	c.waitUntil.Store(0)
	c.frames.SetMaxFrame(maxFrame)
	c.memory.During(ctx)
	f.Proto, f.CorrID = oap.ProtoObject, c.corr
	return c.writer.Write(f)
}

// next returns the next frame of the answer. It has at most maxFrame bytes.
func (c *clientStream) next(maxFrame uint32) (oap.Frame, error) {
	c.reading.Rest()
	f, err := c.frames.Next()
	if err != nil {
		return f, err
	}
	f.Payload, err = f.Inflated(c.codec, maxFrame)
	return f, err
}

// discard resets the stream and releases its buffers.
func (c *clientStream) discard(code network.StreamErrorCode) {
	_ = c.ResetWithError(code)
	c.frames.Release()
	c.memory.Close()
}

// park releases the read buffer of an idle stream and reports whether the stream can
// serve another request. It returns false if the peer sent bytes after the answer.
func (c *clientStream) park() bool {
	if c.frames.Buffered() > 0 {
		return false
	}
	c.parked = true
	_, err := c.frames.Next() // the reader releases its large buffer before it reads
	return errors.Is(err, errParked)
}

var errParked = errors.New("the stream is parked")

// answerReader reads from the stream. It fails with timeout if no byte arrives for
// ReadTimeout, or if a frame arrives slower than MinRate.
type answerReader struct{ c *clientStream }

func (r answerReader) Read(p []byte) (int, error) {
	c := r.c
	if c.parked {
		return 0, errParked
	}
	for {
		now := time.Now()
		end, begun := now.Add(c.cfg.ReadTimeout), c.frames.Buffered() > 0
		if begun {
			end = c.reading.Until(now)
		}
		n, err := c.reading.ReadUntil(p, now, end)
		c.bytesRead += int64(n)
		if errors.Is(err, deadline.ErrPassed) {
			if !begun && time.Now().UnixNano() < c.waitUntil.Load() {
				continue
			}
			err = tooSlow("read answer", &c.cfg, c.cfg.ReadTimeout)
		}
		return n, err
	}
}

// queryWriter writes to the stream. It fails with timeout if the peer reads too
// slowly.
type queryWriter struct{ c *clientStream }

func (w queryWriter) Write(p []byte) (int, error) {
	c := w.c
	c.writing.Rest()
	n, err := c.writing.Write(p)
	if errors.Is(err, deadline.ErrPassed) {
		err = tooSlow("write request", &c.cfg, c.patience)
	}
	return n, err
}
