package fault

import (
	"bytes"
	"encoding/binary"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/oap"
	"allium/protocols/object"
)

// Acceptor returns an acceptor for the object server that damages its answers while the
// fault corrupt is set.
func (f *Injector) Acceptor(a object.Acceptor) object.Acceptor { return corruptAcceptor{a, f} }

// corruptAcceptor passes the object server's streams through a corruptStream.
type corruptAcceptor struct {
	object.Acceptor
	faults *Injector
}

// SetStreamHandler implements [object.Acceptor].
func (a corruptAcceptor) SetStreamHandler(id protocol.ID, h network.StreamHandler) {
	a.Acceptor.SetStreamHandler(id, func(st network.Stream) {
		h(&corruptStream{Stream: st, corrupt: a.faults.corrupt.Load})
	})
}

// corruptStream parses the frames that are written to a stream (OAP1 §9). While corrupt
// returns true, it flips a bit in the last byte of each frame that carries items. All other
// bytes are as the server wrote them. Only one goroutine may write.
type corruptStream struct {
	network.Stream
	corrupt func() bool

	head [oap.HeaderSize]byte // header of the current frame
	n    int                  // bytes of head that were written
	rest uint32               // bytes of the frame's body that are still to be written
}

// Write implements [network.Stream].
func (l *corruptStream) Write(p []byte) (int, error) {
	if ends := l.parse(p); len(ends) > 0 && l.corrupt() {
		p = bytes.Clone(p)
		for _, at := range ends {
			p[at] ^= 1
		}
	}
	return l.Stream.Write(p)
}

// parse goes on in the frames with p. It returns the indices in p of the last bytes of
// frames that carry items.
func (l *corruptStream) parse(p []byte) (ends []int) {
	for at := 0; at < len(p); {
		if l.n < len(l.head) {
			k := copy(l.head[l.n:], p[at:])
			l.n += k
			at += k
			if l.n < len(l.head) {
				return ends
			}
			l.rest = binary.BigEndian.Uint32(l.head[:]) - oap.HeaderSize
		}
		k := int(min(uint32(len(p)-at), l.rest))
		at += k
		l.rest -= uint32(k)
		if l.rest == 0 {
			if k > 0 && l.items() {
				ends = append(ends, at-1)
			}
			l.n = 0
		}
	}
	return ends
}

// items reports whether the current frame carries items. The first and the last frame of an
// answer, and the status of an object, carry none.
func (l *corruptStream) items() bool {
	flags, code := oap.Flags(binary.BigEndian.Uint16(l.head[6:])), binary.BigEndian.Uint16(l.head[8:])
	return flags == oap.FlagResp && code == 0
}
