package fault

import (
	"bufio"
	"bytes"
	"sync"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/delimited"
	"allium/protocols/dht"
	"allium/protocols/record"
)

// NameLiar returns h for the DHT. While the fault corrupt is set, the provider exchange on it
// answers requests for names with the first record that it ever answered them with, or with a
// wrong bit in the record while that is still the current one.
func (f *Injector) NameLiar(h host.Host) host.Host {
	return nameLiar{h, &firstRecords{byKey: map[string][]byte{}}, f}
}

type nameLiar struct {
	host.Host
	first  *firstRecords
	faults *Injector
}

// SetStreamHandler implements [host.Host].
func (l nameLiar) SetStreamHandler(id protocol.ID, h network.StreamHandler) {
	if id == dht.ProviderID {
		inner := h
		h = func(st network.Stream) { inner(&lyingStream{Stream: st, liar: l}) }
	}
	l.Host.SetStreamHandler(id, h)
}

const (
	// maxFirst bounds the names whose first record is remembered, at most 2 KiB each. Requests for further names get
	// only forged records.
	maxFirst = 1024
	// maxExchange is the most bytes of a request or a response; a longer one is left as it is.
	maxExchange = 64 << 10

	opGetName = 4 // OAP1 §11
)

// firstRecords remembers the first record of each name that the node has served. It is safe for
// concurrent use.
type firstRecords struct {
	mu    sync.Mutex // lock: leaf
	byKey map[string][]byte
}

// of returns the first record of a key. Without one it remembers current.
func (f *firstRecords) of(key, current []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, known := f.byKey[string(key)]
	if !known && len(f.byKey) < maxFirst {
		f.byKey[string(key)] = bytes.Clone(current)
	}
	if !known {
		return current
	}
	return first
}

// lyingStream is a stream of the provider exchange, on which one request is read and one response
// is written, in one call of Write.
type lyingStream struct {
	network.Stream
	liar nameLiar

	request []byte // what was read so far, at most maxExchange bytes
}

// Read implements [network.Stream].
func (s *lyingStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	s.request = append(s.request, p[:min(n, maxExchange-len(s.request))]...)
	return n, err
}

// Write implements [network.Stream].
func (s *lyingStream) Write(p []byte) (int, error) {
	lie, ok := s.lie(p)
	if !ok {
		return s.Stream.Write(p)
	}
	if err := delimited.Write(s.Stream, lie); err != nil {
		return 0, err
	}
	return len(p), nil
}

// exchanged decodes the messages of the exchange.
var exchanged = record.NewCodec(32)

// nameRequest is a request for a name. A request with other members is none.
type nameRequest struct {
	Op  uint64 `cbor:"0,keyasint"`
	Key []byte `cbor:"1,keyasint"`
}

// nameAnswer is a response with records of a name. One with other members is none.
type nameAnswer struct {
	Code    uint64       `cbor:"0,keyasint"`
	Records []nameRecord `cbor:"1,keyasint"`
	Closer  []closerPeer `cbor:"2,keyasint,omitempty"`
}

type nameRecord struct {
	_        struct{} `cbor:",toarray"`
	Envelope []byte
	Nothing  []byte
}

type closerPeer struct {
	ID    []byte   `cbor:"1,keyasint"`
	Addrs [][]byte `cbor:"2,keyasint,omitempty"`
}

// lie returns the response to send in place of written. ok is false if that stays: while the fault
// is not set, and where it holds no record of a name.
func (s *lyingStream) lie(written []byte) (lie []byte, ok bool) {
	var q nameRequest
	var a nameAnswer
	if !decodeMessage(s.request, &q) || q.Op != opGetName || !decodeMessage(written, &a) || len(a.Records) == 0 {
		return nil, false
	}
	current := a.Records[0].Envelope
	first := s.liar.first.of(q.Key, current)
	if !s.liar.faults.corrupt.Load() || len(current) == 0 {
		return nil, false
	}
	if bytes.Equal(first, current) {
		first = bytes.Clone(first)
		first[len(first)-1] ^= 1
	}
	a.Records = []nameRecord{{Envelope: first}}
	lie, err := exchanged.Marshal(a)
	return lie, err == nil
}

// decodeMessage decodes a message with its length in front. It reports whether it could.
func decodeMessage(p []byte, v any) bool {
	m, err := delimited.Read(bufio.NewReader(bytes.NewReader(p)), maxExchange)
	return err == nil && exchanged.Unmarshal(m, v) == nil
}
