package fault

import (
	"bytes"
	"encoding/binary"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/oap"
	"allium/protocols/object"
)

// Acceptor is where the object server takes its streams from.
func (f *Injector) Acceptor(a object.Acceptor) object.Acceptor { return lyingAcceptor{a, f} }

// lyingAcceptor lets the object server's answers go out through a [liar].
type lyingAcceptor struct {
	object.Acceptor
	faults *Injector
}

// SetStreamHandler implements [object.Acceptor].
func (a lyingAcceptor) SetStreamHandler(id protocol.ID, h network.StreamHandler) {
	a.Acceptor.SetStreamHandler(id, func(st network.Stream) { h(&liar{Stream: st, lie: a.faults.corrupt.Load}) })
}

// liar follows the frames that are written to a stream (OAP1 §9) and, while lie
// says so, flips a bit in the last byte of each that carries items. All else is
// as the server, which has verified what it sends, wrote it. One goroutine
// writes, as to every stream.
type liar struct {
	network.Stream
	lie func() bool

	head [oap.HeaderSize]byte
	n    int    // bytes of head that are here
	rest uint32 // bytes of the frame to come after head
}

// Write implements [network.Stream].
func (l *liar) Write(p []byte) (int, error) {
	if wrong := l.follow(p); len(wrong) > 0 && l.lie() {
		p = bytes.Clone(p)
		for _, at := range wrong {
			p[at] ^= 1
		}
	}
	return l.Stream.Write(p)
}

// follow reads on in the frames and returns where in p frames of items end.
func (l *liar) follow(p []byte) (ends []int) {
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

// items reports whether the frame of head carries items: neither the first nor
// the last of an answer, and no object's status.
func (l *liar) items() bool {
	flags, code := oap.Flags(binary.BigEndian.Uint16(l.head[6:])), binary.BigEndian.Uint16(l.head[8:])
	return flags == oap.FlagResp && code == 0
}
