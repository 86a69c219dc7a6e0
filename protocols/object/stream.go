package object

import (
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
)

// clientStream is one stream to a peer, used by one request after the other.
type clientStream struct {
	network.Stream
	peer peer.ID
	cfg  Config

	frames *oap.Reader
	writer *oap.Writer
	corr   uint64 // of the latest request
	got    int64  // bytes read since the latest request was sent
	parked bool   // nothing is read: see park

	reading, writing stall
	timer            *time.Timer // while idle in the pool
}

func newClientStream(id peer.ID, st network.Stream, cfg Config) *clientStream {
	c := &clientStream{
		Stream: st, peer: id, cfg: cfg,
		reading: stall{set: st.SetReadDeadline}, writing: stall{set: st.SetWriteDeadline},
	}
	c.frames = oap.NewReader(answerReader{c}, oap.MaxFrame)
	c.writer = oap.NewWriter(queryWriter{c}, oap.MaxFrame)
	return c
}

// exchange sends a request and gives the frames of its answer to a, up to its
// last one or the first error. done reports whether it was the last one.
func (c *clientStream) exchange(payload []byte, a answer) (done bool, err error) {
	c.corr++
	c.got, c.parked = 0, false
	err = c.writer.Write(oap.Frame{
		Header:  oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd, Proto: oap.ProtoObject, CorrID: c.corr},
		Payload: payload,
	})
	if err != nil {
		return false, err
	}
	for {
		f, err := c.frames.Next()
		if err != nil {
			return false, err
		}
		if f.Proto != oap.ProtoObject || f.CorrID != c.corr {
			return false, violation("a frame of app_proto_id %d, corr_id %d answers corr_id %d", f.Proto, f.CorrID, c.corr)
		}
		if done, err := a.frame(f); done || err != nil {
			return done, err
		}
	}
}

// park makes the stream cheap to keep and reports whether it is fit for another
// request: not when the peer said more than it was asked.
func (c *clientStream) park() bool {
	if c.frames.Buffered() > 0 {
		return false
	}
	c.parked = true
	_, err := c.frames.Next() // the reader gives its large buffer back before it reads
	return errors.Is(err, errParked)
}

var errParked = errors.New("object: the stream is parked")

// answerReader reads from the stream and fails when nothing comes for the read
// timeout.
type answerReader struct{ c *clientStream }

func (r answerReader) Read(p []byte) (int, error) {
	c, d := r.c, r.c.cfg.ReadTimeout
	if c.parked {
		return 0, errParked
	}
	c.reading.start(d)
	for {
		n, err := c.Stream.Read(p)
		c.got += int64(n)
		switch {
		case n > 0 || !isTimeout(err):
			return n, notTimeout(err)
		case !c.reading.again(n, err, d):
			return 0, timeoutError("read answer", d)
		}
	}
}

// queryWriter writes to the stream and fails when the peer takes nothing for
// the write timeout.
type queryWriter struct{ c *clientStream }

func (w queryWriter) Write(p []byte) (int, error) {
	return writeAll(w.c.Stream, &w.c.writing, p, w.c.cfg.WriteTimeout)
}
