package kadhost

import (
	"bufio"
	"encoding/binary"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"allium/protocols/delimited"
)

const (
	// streamBuffer is the size of a stream's read buffer in bytes. A query takes
	// about 40.
	streamBuffer = 128

	// maxKey is the longest key in bytes that Host answers for. kad-dht receives
	// queries for longer keys and refuses them.
	maxKey = 80
)

// Answer returns the response to a GET_PROVIDERS or FIND_NODE that came over a
// connection. It is called from several goroutines.
type Answer func(from network.Conn, q *pb.Message) *pb.Message

// Host returns h with a stream handler for id that answers GET_PROVIDERS and FIND_NODE
// with answer and leaves all other messages, of at most maxMessage bytes, to the handler
// that is set. One Read of a stream of h must not return bytes of two messages; the streams
// of package guard satisfy this.
func Host(h host.Host, id protocol.ID, maxMessage int, answer Answer) host.Host {
	return &answering{Host: h, id: id, maxMessage: maxMessage, answer: answer}
}

// answering is a host whose handler for id sees no GET_PROVIDERS and no FIND_NODE.
type answering struct {
	host.Host
	id         protocol.ID
	maxMessage int
	answer     Answer
}

// SetStreamHandler implements host.Host.
func (h *answering) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	if id == h.id {
		handle := f
		f = func(s network.Stream) {
			handle(&stream{Stream: s, host: h, in: bufio.NewReaderSize(s, streamBuffer)})
		}
	}
	h.Host.SetStreamHandler(id, f)
}

// stream answers each query inside Read and hides it from the reader.
type stream struct {
	network.Stream
	host   *answering
	in     *bufio.Reader
	unread []byte // rest of the current message
}

// Read implements network.Stream.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// next reads one message. It answers a query and stores any other message in unread.
func (s *stream) next() error {
	body, err := delimited.Read(s.in, s.host.maxMessage)
	if err != nil {
		return err
	}
	q, ok := query(body)
	if !ok {
		s.unread = append(binary.AppendUvarint(nil, uint64(len(body))), body...)
		return nil
	}
	response, err := proto.Marshal(s.host.answer(s.Conn(), q))
	if err != nil {
		return err
	}
	return delimited.Write(s.Stream, response)
}

// query returns the message in body if it is a GET_PROVIDERS or FIND_NODE with a key of
// 1 to maxKey bytes.
func query(body []byte) (q *pb.Message, ok bool) {
	q = new(pb.Message)
	if err := proto.Unmarshal(body, q); err != nil {
		return nil, false
	}
	n := len(q.GetKey())
	answered := q.GetType() == pb.Message_GET_PROVIDERS || q.GetType() == pb.Message_FIND_NODE
	return q, answered && 0 < n && n <= maxKey
}
