package kadhost

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"testing"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"google.golang.org/protobuf/proto"

	"allium/protocols/delimited"
)

const maxMessage = 16 << 10

// oneMessage is a stream that, as the guard's, returns no bytes of two messages
// from one Read.
type oneMessage struct {
	network.Stream
	messages [][]byte
	out      bytes.Buffer
}

func (s *oneMessage) Conn() network.Conn { return asking{} }

func (s *oneMessage) Read(p []byte) (int, error) {
	if len(s.messages) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.messages[0])
	if s.messages[0] = s.messages[0][n:]; len(s.messages[0]) == 0 {
		s.messages = s.messages[1:]
	}
	return n, nil
}

func (s *oneMessage) Write(p []byte) (int, error) { return s.out.Write(p) }

type asking struct{ network.Conn }

// FuzzStream: the handler reads every message but a query as it came, and each
// query has one answer.
func FuzzStream(f *testing.F) {
	for _, kind := range []pb.Message_MessageType{
		pb.Message_FIND_NODE, pb.Message_GET_PROVIDERS, pb.Message_ADD_PROVIDER,
	} {
		raw, err := proto.Marshal(pb.NewMessage(kind, []byte("some key"), 0))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, []byte("noise"))
	}
	f.Add([]byte{}, bytes.Repeat([]byte{0x0a}, 300))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		under := &oneMessage{}
		var want []byte
		asked := 0
		for _, m := range [][]byte{a, b, a} {
			if len(m) > maxMessage {
				return
			}
			var framed bytes.Buffer
			if err := delimited.Write(&framed, m); err != nil {
				t.Fatal(err)
			}
			under.messages = append(under.messages, slices.Clone(framed.Bytes()))
			var q pb.Message
			err := proto.Unmarshal(m, &q)
			key := len(q.GetKey())
			if err == nil && (q.GetType() == pb.Message_GET_PROVIDERS || q.GetType() == pb.Message_FIND_NODE) &&
				0 < key && key <= maxKey {
				asked++
			} else {
				want = append(want, framed.Bytes()...)
			}
		}
		answers := 0
		h := &answering{maxMessage: maxMessage, answer: func(_ network.Conn, q *pb.Message) *pb.Message {
			answers++
			return pb.NewMessage(q.GetType(), q.GetKey(), 0)
		}}
		s := &stream{Stream: under, host: h, in: bufio.NewReaderSize(under, streamBuffer)}
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, want) || answers != asked || (under.out.Len() > 0) != (asked > 0) {
			t.Fatalf("read %x, %v, want %x; %d answers to %d", got, err, want, answers, asked)
		}
	})
}
