package allowance

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-varint"

	"allium/protocols/status"
)

// fixedStream reads what it holds, in pieces of at most piece bytes.
type fixedStream struct {
	network.Stream
	in    []byte
	piece int
	codes []network.StreamErrorCode
}

type fixedConn struct{ network.Conn }

func (fixedConn) RemotePeer() peer.ID           { return "asker" }
func (fixedConn) RemoteMultiaddr() ma.Multiaddr { return nil }

func (s *fixedStream) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.piece)], s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *fixedStream) Write(p []byte) (int, error)      { return len(p), nil }
func (s *fixedStream) Conn() network.Conn               { return fixedConn{} }
func (s *fixedStream) SetReadDeadline(time.Time) error  { return nil }
func (s *fixedStream) SetWriteDeadline(time.Time) error { return nil }
func (s *fixedStream) ResetWithError(c network.StreamErrorCode) error {
	s.codes = append(s.codes, c)
	return nil
}

// messages is what a reader without limits finds in p: the bytes of the whole
// messages of at most limit bytes at its start, and how what follows them fails.
func messages(p []byte, limit uint64) (whole int, err error) {
	for {
		n, size, err := varint.FromUvarint(p[whole:])
		switch {
		case whole == len(p):
			return whole, nil
		case errors.Is(err, varint.ErrUnderflow):
			return whole, io.ErrUnexpectedEOF
		case err != nil:
			return whole, status.Errorf(status.BadFrame, "%w", err)
		case n > limit:
			return whole, status.Errorf(status.FrameOversize, "%d", n)
		case uint64(len(p)-whole-size) < n:
			return whole, io.ErrUnexpectedEOF
		}
		whole += size + int(n)
	}
}

// FuzzRead: whatever arrives in whatever pieces, the handler gets the whole
// messages, nothing of what follows them, and the reason.
func FuzzRead(f *testing.F) {
	const limit = 300
	for _, in := range [][]byte{
		nil, {0}, {0x80}, {0x81, 0}, frame([]byte("hello")), append(frame([]byte("a")), frame(make([]byte, limit))...),
		append(frame(nil), frame(make([]byte, limit+1))...), {5}, {5, 'h', 'e'}, bytes.Repeat([]byte{0xff}, 12),
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, bytes.Repeat([]byte{1}, 40),
	} {
		f.Add(in, uint8(1), uint8(3))
		f.Add(in, uint8(255), uint8(0))
	}
	g := newTested(f, func(c *Config) { c.Rate, c.PeerRate = 1_000_000, 1_000_000 })
	f.Fuzz(func(t *testing.T, in []byte, piece, ask uint8) {
		if len(in) > 4<<10 {
			return // more messages are no other messages, and spend the rate
		}
		raw := &fixedStream{in: in, piece: max(int(piece), 1)}
		s := newStream(raw, g.Guard, limit)
		s.ctx = t.Context()
		var got []byte
		var err error
		for p := make([]byte, int(ask)+1); err == nil; {
			var n int
			n, err = s.Read(p)
			got = append(got, p[:n]...)
		}
		s.releaseAll()
		_ = s.Reset() // as kad-dht does; it must not replace the code
		if status.Of(err) == status.RateLimit {
			t.Skip("the fuzzer is faster than the rate")
		}
		whole, want := messages(in, limit)
		if !bytes.Equal(got, in[:whole]) {
			t.Fatalf("got %x, want %x", got, in[:whole])
		}
		switch code := status.Of(want); {
		case want == nil:
			if !errors.Is(err, io.EOF) {
				t.Errorf("it ends with %v, want io.EOF", err)
			}
		case errors.Is(want, io.ErrUnexpectedEOF):
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("it ends with %v, want %v", err, want)
			}
		case status.Of(err) != code || len(raw.codes) != 1 || raw.codes[0] != network.StreamProtocolViolation:
			t.Errorf("it ends with %v and codes %v, want %v", err, raw.codes, want)
		}
		g.wantFree(t)
	})
}
